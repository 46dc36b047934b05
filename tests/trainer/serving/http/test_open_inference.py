"""Tensors in the binary form of the Open Inference Protocol."""

import json
import re

import numpy as np
import pytest

from tests.trainer.serving.http.serving import Echo, post, running
from trainer.serving.http.limits import Limits
from trainer.serving.http.open_inference import MEDIA_TYPE, parse_request
from trainer.serving.http.predictions import BatchPredictor

pytestmark = pytest.mark.fast


def describe(name, shape, datatype, size):
    parameters = {"binary_data_size": size}
    return {"name": name, "shape": shape, "datatype": datatype, "parameters": parameters}


def body(*inputs, data=b"", **others):
    head = json.dumps({"inputs": list(inputs), **others}).encode()
    return head + data, len(head)


ROWS = np.array([[1, 2], [3, 4.5]], "<f4")
TEXTS = b"\x01\0\0\0a\x00\0\0\0"
INPUTS = (describe("x", [2, 2], "FP32", 16), describe("t", [2], "BYTES", 9))


def test_tensors_come_back_over_http_in_binary():
    content, head_size = body(
        *INPUTS, data=ROWS.tobytes() + TEXTS, id="7", parameters={"binary_data_output": True}
    )
    with running(Limits()) as server:
        sent = post(content, f"Content-Type: {MEDIA_TYPE};json-header-size={head_size}")
        head, _, received = server.send(sent).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 ")
    size = int(re.search(rf"{re.escape(MEDIA_TYPE)};json-header-size=(\d+)\r".encode(), head)[1])
    assert json.loads(received[:size]) == {
        "id": "7",
        "outputs": [{**one} for one in INPUTS],
    }
    assert received[size:] == ROWS.tobytes() + TEXTS


def test_requests_of_a_batch_get_their_own_rows_in_the_form_they_want():
    first = parse_request(*body(describe("x", [1, 2], "FP32", 8), data=ROWS[:1].tobytes()))
    wanted = [{"name": "x", "parameters": {"binary_data": True}}]
    second = parse_request(
        *body(describe("x", [2, 2], "FP32", 16), data=ROWS.tobytes(), outputs=wanted)
    )
    answers = BatchPredictor(Echo())("tensors", [first, second])
    [output] = json.loads(answers[0].body)["outputs"]
    assert output == {"name": "x", "shape": [1, 2], "datatype": "FP32", "data": [1.0, 2.0]}
    assert answers[1].body.endswith(ROWS.tobytes())


def test_the_type_of_a_request_is_not_that_of_another_one():
    sent = b""
    for datatype, size in (("INT32", 4), ("INT64", 8)):
        content, head_size = body(describe("x", [1], datatype, size), data=bytes(size))
        sent += post(content, f"Inference-Header-Content-Length: {head_size}")
    with running(Limits()) as server:
        received = server.send(sent)
    assert re.findall(rb'"datatype":"(\w+)"', received) == [b"INT32", b"INT64"]


def form_of(*inputs):
    data = bytes(sum(one["parameters"]["binary_data_size"] for one in inputs))
    return parse_request(*body(*inputs, data=data)).form


FIRST, SECOND = describe("x", [2], "INT32", 8), describe("y", [2], "INT32", 8)


def test_requests_with_other_rows_of_the_same_inputs_share_a_batch():
    assert form_of(FIRST) == form_of(describe("x", [3], "INT32", 12))
    assert form_of(FIRST, SECOND) == form_of(SECOND, FIRST)


@pytest.mark.parametrize(
    "other",
    [
        [describe("x", [2], "INT64", 16)],
        [describe("x", [2, 1], "INT32", 8)],
        [SECOND],
        [FIRST, SECOND],
    ],
    ids=["another type", "another shape", "another name", "another input"],
)
def test_other_requests_share_no_batch(other):
    assert form_of(*other) != form_of(FIRST)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (body(describe("x", [2, 2], "FP32", 12), data=bytes(16)), "needs 4 values; 3 were sent"),
        (body(describe("x", [2, 2], "FP32", 16), data=bytes(17)), "1 bytes follow"),
        (body(describe("x", [2, 2], "FP32", -1), data=bytes(16)), "binary_data_size is -1"),
        (body(describe("x", [], "FP32", 4), data=bytes(4)), "the shape"),
        (body(describe("x", [-1], "FP32", 4), data=bytes(4)), "the shape"),
        (body(describe("x", [1], "FP31", 4), data=bytes(4)), "the datatype 'FP31'"),
        (body(describe("x", [1], "BYTES", 3), data=bytes(3)), "a text is incomplete"),
        (body(describe("x", [1], "BYTES", 5), data=b"\x02\0\0\0a"), "a text is incomplete"),
        (body(describe("x", [0], "FP32", 0)), r"the shape \[0\] .* above 0"),
        (body(describe("x", [10**9, 0], "FP32", 0)), r"the shape \[1000000000, 0\] .* above 0"),
        (body(describe(5, [1], "INT8", 1), data=bytes(1)), "the name 5 must be a text"),
        (body(*[describe("x", [1], "INT8", 1)] * 2, data=bytes(2)), "the name 'x' .* of one input"),
        (body(), "there must be inputs"),
        (body(INPUTS[0], describe("y", [1], "INT8", 1), data=bytes(17)), "same number of rows"),
        (body({"name": "x", "shape": [1]}), "no 'parameters'"),
        ((b"{}", 2), "no 'inputs'"),
        ((b"[]", 2), "no tensors"),
        ((b"{", 1), "no tensors"),
    ],
    ids=str,
)
def test_a_wrong_body_is_named(content, message):
    with pytest.raises(Exception, match=message) as error:
        parse_request(*content)
    assert error.value.status == 400
