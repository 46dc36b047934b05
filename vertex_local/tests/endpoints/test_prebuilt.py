"""Google's prebuilt prediction images: the server that stands for them, and what is refused."""

import base64
import importlib.util
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from vertex_local.endpoints.prebuilt_server import booster, columns_of, estimator
from vertex_local.endpoints.serving_contract import UNPICKLING, prebuilt_command
from vertex_local.errors import ApiError
from vertex_local.tests.support.forks import forks_with
from vertex_local.tests.support.service import FORKED, PRELOAD_KFP, deployment, running_service

REGISTRY = "us-docker.pkg.dev/vertex-ai/prediction"
TENSORFLOW = f"{REGISTRY}/tf2-cpu.2-15:latest"


@pytest.fixture
def own_service(tmp_path):
    """Start a service whose processes have imported TensorFlow."""
    preload = ("--preload", f"{PRELOAD_KFP[1]},tensorflow")
    with running_service(tmp_path / "vertex", *preload) as running:
        yield running


@pytest.fixture
def serve(service):
    """Return a function that deploys an uploaded model of an image and returns its predict."""

    def do(image, folder):
        container = {"imageUri": image, "deploymentTimeout": "120s"}
        model = {"displayName": "m", "artifactUri": str(folder), "containerSpec": container}
        name = service.do("POST", "models:upload", {"model": model})["model"]
        endpoint = service.do("POST", "endpoints", {"displayName": "e"})["name"]
        service.do("POST", f"/v1/{endpoint}:deployModel", deployment(name))

        def predict(method="predict", **body):
            return service.call("POST", f"/v1/{endpoint}:{method}", body)

        return predict

    return do


@pytest.mark.skipif(not importlib.util.find_spec("tensorflow"), reason="needs TensorFlow")
def test_a_saved_model_is_served_as_by_tensorflow_serving(own_service, serve, tmp_path):
    words = ["python", "-m", "vertex_local.tests.support.saved_model", str(tmp_path / "model")]
    export = forks_with(*FORKED[-1]).start(words, log_path=tmp_path / "log")
    assert export.wait(120) == 0, export.output
    predict = serve(TENSORFLOW, tmp_path / "model")
    assert f"instead of the image {TENSORFLOW}, the tensorflow of" in own_service.log()
    assert predict(instances=[1, 4.5]).json()["predictions"] == [2, 9]
    assert predict(instances=[{"x": 1}]).json()["predictions"] == [2]
    wrong = predict(instances=[{"z": 1}])
    assert (wrong.status_code, "['x']" in wrong.text) == (400, True)
    assert predict(instances=["text"]).status_code == 400

    row = {"left": {"b64": base64.b64encode(b"\xff\x00").decode()}, "right": "ab"}
    unequal = predict("rawPredict", signature_name="join", instances=[row, {"left": "x"}])
    assert unequal.status_code == 400
    row["left"] = "a"
    body = predict("rawPredict", signature_name="join", instances=[row, {**row, "right": "c"}])
    first = {"text": "aab", "raw_bytes": {"b64": "YQ=="}, "n": 2}
    assert body.json() == {"predictions": [first, {**first, "text": "ac", "n": 1}]}
    body = predict("rawPredict", signature_name="join", inputs={"left": ["a"], "right": ["b"]})
    assert body.json()["outputs"]["text"] == ["ab"]
    assert predict("rawPredict", inputs={"x": [3]}).json() == {"outputs": [6]}
    assert "join" in predict("rawPredict", signature_name="no", instances=[1]).json()["error"]


class Booster:
    """A model of XGBoost that adds up a row."""

    def __init__(self, model_file):
        assert Path(model_file).read_text() == "model"

    def predict(self, rows, validate_features):
        return rows.sum(axis=1)


def matrix(array):
    if array.ndim != 2:
        raise ValueError("expected a matrix")
    return array


@pytest.mark.fast
def test_models_of_xgboost_and_sklearn_are_served(tmp_path, monkeypatch):
    module = SimpleNamespace(Booster=Booster, DMatrix=matrix)
    monkeypatch.setitem(sys.modules, "xgboost", module)
    (tmp_path / "model.pkl").touch()
    model = SimpleNamespace(predict=lambda rows: np.sum(rows, axis=1))
    monkeypatch.setitem(
        sys.modules, "joblib", SimpleNamespace(load={tmp_path / "model.pkl": model}.get)
    )
    with pytest.raises(SystemExit, match="There is no"):
        booster(tmp_path)
    (tmp_path / "model.bst").write_text("model")
    for predict in (booster(tmp_path), estimator(tmp_path)):
        assert predict({"instances": [[1, 2], [3, 4]]}) == {"predictions": [3, 7]}
        for body in ({}, {"instances": [1]}, {"instances": [["text"]]}):
            with pytest.raises((KeyError, TypeError, ValueError)):
                predict(body)


@pytest.mark.fast
@pytest.mark.parametrize(
    ("image", "message"),
    [
        (f"{REGISTRY}/sklearn-cpu.1-2:latest", "which run any code"),
        (f"{REGISTRY}/pytorch-gpu.2-1", "which run any code"),
        (f"{REGISTRY}/tf2-gpu.2-9:latest", "pip install tensorflow"),
    ],
)
def test_images_for_which_nothing_stands_are_refused(image, message, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ApiError, match=message):
        prebuilt_command(image, model="models/1@1")


@pytest.mark.fast
def test_pickled_models_are_loaded_by_a_service_that_may(monkeypatch):
    monkeypatch.setenv(UNPICKLING, "1")
    monkeypatch.setattr(importlib.util, "find_spec", str)
    assert prebuilt_command(f"{REGISTRY}/sklearn-cpu.1-2", model="m")[-1] == "sklearn"


@pytest.mark.fast
@pytest.mark.parametrize("image", ["", "any", "gcr.io/p/prediction", "tensorflow/serving:2.15"])
def test_other_images_are_not_googles(image):
    assert prebuilt_command(image, model="m") == []


@pytest.mark.fast
def test_instances_become_a_column_for_each_input():
    assert columns_of({"instances": [{"a": 1, "b": 2}, {"b": 4, "a": 3}]}, {"a", "b"}) == {
        "a": [1, 3],
        "b": [2, 4],
    }
    assert columns_of({"instances": [{"b64": ""}]}, {"a"}) == [{"b64": ""}]
    for instances in ([], "text", [{"a": 1}]):
        with pytest.raises(ValueError, match="instance"):
            columns_of({"instances": instances}, {"a", "b"})
