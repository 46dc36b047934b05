"""Prediction server in place of Google's prebuilt images of TensorFlow, XGBoost and scikit-learn.

Usage: python -m vertex_local.endpoints.prebuilt_server tensorflow|xgboost|sklearn

The framework is installed with this Python; the service itself needs none. TensorFlow's requests
and responses are TensorFlow Serving's: https://www.tensorflow.org/tfx/serving/api_rest
"""

import base64
import json
import os
import sys
import threading
from collections.abc import Callable, Collection
from http import HTTPStatus
from importlib import import_module
from pathlib import Path
from typing import Any

import waitress
from werkzeug.wrappers import Request, Response

from vertex_local import Json

Predict = Callable[[Json], Json]
DEFAULT_SIGNATURE = "serving_default"
NUM_THREADS = 16
BYTES_SUFFIX = "_bytes"  # of an output's name: its strings are base64


def main() -> None:
    """Load the model, then serve it until the process is ended."""
    folder = Path(os.environ["AIP_STORAGE_URI"])
    load = {"tensorflow": saved_model, "xgboost": booster, "sklearn": estimator}[sys.argv[1]]
    host, port = os.environ["AIP_HTTP_HOST"], os.environ["AIP_HTTP_PORT"]
    waitress.serve(application(load(folder)), host=host, port=port, threads=NUM_THREADS)


def saved_model(folder: Path) -> Predict:
    """Load a SavedModel; return its function of request bodies."""
    _file_of(folder, "saved_model.pb")
    tf: Any = import_module("tensorflow")
    model = tf.saved_model.load(str(folder))  # has the variables of its signatures

    def predict(body: Json) -> Json:
        signatures = model.signatures
        name = body.get("signature_name", DEFAULT_SIGNATURE)
        if name not in signatures:
            raise ValueError(f'no signature "{name}"; the model has {sorted(signatures)}')
        specs = signatures[name].structured_input_signature[1]
        columns = _columns(body, specs)
        try:
            tensors = {
                name: tf.constant(_decoded(columns[name]), spec.dtype)
                for name, spec in specs.items()
            }
            outputs = signatures[name](**tensors)
        except tf.errors.OpError as error:
            raise ValueError(str(error)) from error
        return _response(body, {name: _plain(outputs[name].numpy(), name) for name in outputs})

    return predict


def _columns(body: Json, names: Collection[str]) -> Json:
    columns = body["inputs"] if "inputs" in body else columns_of(body, names)
    if isinstance(columns, dict) and columns.keys() == set(names):
        return columns
    if len(names) == 1:
        return dict.fromkeys(names, columns)
    raise ValueError(f"the model's inputs are {sorted(names)}; name each")


def _response(body: Json, outputs: Json) -> Json:
    is_single = len(outputs) == 1
    [first, *_] = outputs.values()
    if "inputs" in body:
        return {"outputs": first if is_single else outputs}
    if is_single:
        return {"predictions": first}
    rows = zip(*outputs.values(), strict=True)
    return {"predictions": [dict(zip(outputs, row, strict=True)) for row in rows]}


def columns_of(body: Json, names: Collection[str]) -> Any:
    """Return the instances of a request by input; a list if they are values of the only input."""
    instances = body.get("instances")
    if not isinstance(instances, list) or not instances:
        raise ValueError('"instances" must be a list that is not empty')
    if not all(isinstance(row, dict) and "b64" not in row for row in instances):
        return instances
    for row in instances:
        if row.keys() != set(names):
            raise ValueError(f"an instance has {sorted(row)}; the model's inputs: {sorted(names)}")
    return {name: [row[name] for row in instances] for name in names}


def booster(folder: Path) -> Predict:
    """Load `model.bst`; return its function of request bodies."""
    path = _file_of(folder, "model.bst")
    xgboost: Any = import_module("xgboost")
    model, lock = xgboost.Booster(model_file=str(path)), threading.Lock()

    def predict(body: Json) -> Json:
        rows = xgboost.DMatrix(import_module("numpy").array(body["instances"], dtype=float))
        with lock:
            return {"predictions": model.predict(rows, validate_features=False).tolist()}

    return predict


def estimator(folder: Path) -> Predict:
    """Unpickle `model.joblib` or `model.pkl`; return its function of request bodies."""
    path = _file_of(folder, "model.joblib", "model.pkl")
    model: Any = import_module("joblib").load(path)  # it reads plain pickles, too
    return lambda body: {"predictions": model.predict(body["instances"]).tolist()}


def _file_of(folder: Path, *names: str) -> Path:
    """Return the file of a model; its names are those that Google's image looks for."""
    for path in (folder / name for name in names):
        if path.is_file():
            return path
    sys.exit(f"There is no {' or '.join(names)} in {folder}, for which the image looks.")


def _decoded(value: Any) -> Any:
    if isinstance(value, dict) and value.keys() == {"b64"}:
        return base64.b64decode(value["b64"])
    return [_decoded(part) for part in value] if isinstance(value, list) else value


def _plain(array: Any, name: str) -> Any:
    if array.dtype.kind != "O":
        return array.tolist()

    def text(value: Any) -> Any:
        if isinstance(value, list):
            return [text(part) for part in value]
        is_binary = name.endswith(BYTES_SUFFIX)
        return {"b64": base64.b64encode(value).decode()} if is_binary else value.decode()

    return text(array.tolist())


def application(predict: Predict) -> Any:
    """Return the WSGI application that serves a function of request bodies."""

    def respond(request: Request) -> Response:
        if request.method == "GET":
            is_known = request.path == os.environ["AIP_HEALTH_ROUTE"]
            return _json(HTTPStatus.OK if is_known else HTTPStatus.NOT_FOUND, {})
        if request.path != os.environ["AIP_PREDICT_ROUTE"]:
            error = f"{request.path} is no route of this server"
            return _json(HTTPStatus.NOT_FOUND, {"error": error})
        try:
            body = json.loads(request.get_data())
            if not isinstance(body, dict):
                raise ValueError("the body must be an object")
            return _json(HTTPStatus.OK, predict(body))
        except (KeyError, TypeError, ValueError) as error:  # an XGBoostError is a ValueError
            return _json(HTTPStatus.BAD_REQUEST, {"error": str(error)})

    return Request.application(respond)


def _json(status: HTTPStatus, body: Json) -> Response:
    return Response(json.dumps(body), status=status, content_type="application/json")


if __name__ == "__main__":
    main()
