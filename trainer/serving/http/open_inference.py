"""Tensors in the binary form of the Open Inference Protocol: a JSON head, then raw numbers.

It is documented, needs no generated code, and cannot contain code as pickle can. Vertex AI's Triton
servers take it by rawPredict, and `tritonclient` writes it.
https://kserve.github.io/website/docs/concepts/architecture/data-plane/v2-protocol/binary-tensor-data-extension
"""

import math
import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson

from trainer.serving.http.bodies import parse_json
from trainer.serving.http.messages import JSON, Request, RequestError, Response

MEDIA_TYPE = "application/vnd.vertex-ai-triton.binary+json"
_CONTENT_TYPE = re.compile(rf"{re.escape(MEDIA_TYPE)}\s*;\s*json-header-size=(\d{{1,9}})")
_DTYPES = {
    "BOOL": np.dtype(bool),
    **{f"INT{8 * size}": np.dtype(f"<i{size}") for size in (1, 2, 4, 8)},
    **{f"UINT{8 * size}": np.dtype(f"<u{size}") for size in (1, 2, 4, 8)},
    **{f"FP{8 * size}": np.dtype(f"<f{size}") for size in (2, 4, 8)},
    "BYTES": np.dtype(object),
}
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}
_LENGTH = struct.Struct("<I")


@dataclass(frozen=True, kw_only=True)
class TensorRequest:
    """Inputs by name, all of `num_rows` rows.

    `outputs` are the names of the wanted outputs, and True for those in binary; empty means all, as
    `is_binary` says.
    """

    inputs: dict[str, np.ndarray]
    num_rows: int
    request_id: str
    outputs: Mapping[str, bool]
    is_binary: bool

    @property
    def form(self) -> str:
        """The names, types and shapes of rows; requests that differ in these share no batch."""
        rows = ((name, one.dtype.str, one.shape[1:]) for name, one in self.inputs.items())
        return f"tensors {sorted(rows)}"


def find_head_size(request: Request) -> int | None:
    """Return the bytes of the JSON head of a body with tensors; None for another body.

    It is in the content type, as Vertex AI's rawPredict sends it on, or in a header.
    """
    content_type = request.headers.get(b"content-type", b"")
    if content_type.startswith(MEDIA_TYPE.encode()):
        match = _CONTENT_TYPE.fullmatch(content_type.decode("latin-1").strip())
        if not match:
            raise RequestError(400, f"the content type must be {MEDIA_TYPE};json-header-size=BYTES")
        return int(match[1])
    size = request.headers.get(b"inference-header-content-length")
    if size is not None and not re.fullmatch(rb"\d{1,9}", size):
        raise RequestError(400, "Inference-Header-Content-Length must be a number of bytes")
    return None if size is None else int(size)


def parse_request(body: bytes, head_size: int) -> TensorRequest:
    """Return the tensors of a request's body; RequestError 400 says what is wrong."""
    try:
        head = parse_json(body[:head_size])
        inputs, rest = {}, memoryview(body)[head_size:]
        for one in head["inputs"]:
            name, size = one["name"], _read_size(one["parameters"]["binary_data_size"])
            if not isinstance(name, str) or name in inputs:
                raise ValueError(f"the name {name!r:.60} must be a text, and of one input")
            inputs[name] = _read_tensor(one, rest[:size])
            rest = rest[size:]
        if rest:
            raise ValueError(f"{len(rest)} bytes follow the last input")
        num_rows = {len(tensor) for tensor in inputs.values()}
        if len(num_rows) != 1:
            raise ValueError("there must be inputs, all with the same number of rows")
        outputs = {
            one["name"]: bool(one.get("parameters", {}).get("binary_data"))
            for one in head.get("outputs", [])
        }
        return TensorRequest(
            inputs=inputs,
            num_rows=num_rows.pop(),
            request_id=str(head.get("id", "")),
            outputs=outputs,
            is_binary=bool(head.get("parameters", {}).get("binary_data_output")),
        )
    except KeyError as error:
        raise RequestError(400, f"the head of the body has no {error}") from error
    except (ValueError, TypeError, AttributeError, OverflowError) as error:
        raise RequestError(400, f"the body has no tensors: {error}") from error


def make_response(request: TensorRequest, outputs: Mapping[str, np.ndarray]) -> Response:
    """Return the outputs that a request wants; RequestError names one that does not exist."""
    wanted = request.outputs or dict.fromkeys(outputs, request.is_binary)
    heads, parts = [], []
    for name, is_binary in wanted.items():
        if name not in outputs:
            raise RequestError(400, f"there is no output {name!r}; use {', '.join(outputs)}")
        tensor = outputs[name]
        head: dict[str, Any] = {"name": name, "shape": list(tensor.shape)}
        head["datatype"] = _NAMES.get(tensor.dtype.newbyteorder("<"), "BYTES")
        if is_binary:
            parts.append(_to_bytes(tensor))
            head["parameters"] = {"binary_data_size": len(parts[-1])}
        else:
            head["data"] = _to_list(tensor)
        heads.append(head)
    content = {"id": request.request_id, "outputs": heads}
    start = orjson.dumps(content)
    content_type = f"{MEDIA_TYPE};json-header-size={len(start)}" if parts else JSON
    headers = {"Inference-Header-Content-Length": str(len(start))} if parts else {}
    return Response(body=b"".join([start, *parts]), content_type=content_type, headers=headers)


def _read_size(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"binary_data_size is {value!r:.40}; it must be a number of bytes")
    return value


def _read_tensor(head: Mapping[str, Any], data: memoryview) -> np.ndarray:
    name, shape, datatype = head["name"], head["shape"], head["datatype"]
    if datatype not in _DTYPES:
        raise ValueError(f"{name}: the datatype {datatype!r:.40} is not {', '.join(_DTYPES)}")
    # No size is 0: a tiny request could have a billion rows without values.
    if not shape or any(type(size) is not int or size < 1 for size in shape):
        raise ValueError(f"{name}: the shape {shape!r:.60} must be rows and further sizes, above 0")
    dtype, size = _DTYPES[datatype], math.prod(shape)
    is_text = dtype.kind == "O"
    tensor = np.asarray(_split_texts(data), dtype) if is_text else np.frombuffer(data, dtype)
    if tensor.size != size:
        raise ValueError(f"{name}: the shape {shape} needs {size} values; {tensor.size} were sent")
    return tensor.reshape(shape)


def _split_texts(data: memoryview) -> list[bytes]:
    """Return texts, each after its length: four bytes, little endian."""
    texts, at = [], 0
    while at < len(data):
        if at + _LENGTH.size > len(data):
            raise ValueError("a text is incomplete")
        (length,) = _LENGTH.unpack_from(data, at)
        at += _LENGTH.size + length
        if at > len(data):
            raise ValueError("a text is incomplete")
        texts.append(bytes(data[at - length : at]))
    return texts


def _to_bytes(tensor: np.ndarray) -> bytes:
    if tensor.dtype != object:
        return np.ascontiguousarray(tensor, tensor.dtype.newbyteorder("<")).tobytes()
    return b"".join(_LENGTH.pack(len(text)) + text for text in tensor.ravel().tolist())


def _to_list(tensor: np.ndarray) -> list[Any]:
    values: list[Any] = tensor.ravel().tolist()
    if tensor.dtype == object:
        return [text.decode(errors="replace") for text in values]
    return values
