"""The three components as KFP runs them: compiled, each in a process of its own."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from google_cloud_pipeline_components.types.artifact_types import (
    UnmanagedContainerModel,
    VertexEndpoint,
)
from kfp import compiler, dsl, local
from kfp.local.config import LocalExecutionConfig

from components.evaluate.component import evaluate
from components.predict.component import predict
from components.prepare_examples.component import prepare_examples
from trainer.export import export_model, load_predictor
from trainer.workloads import load_workload

ENDPOINT = "projects/demo/locations/local/endpoints/5"


@dsl.pipeline(name="prepare-evaluate-predict")
def steps(data_dir: str, model_uri: str, thresholds: str, max_examples: int = 0):
    prepared = prepare_examples(
        workload="mnist", data_dir=data_dir, max_examples=max_examples, trust_files=True
    )
    model = dsl.importer(artifact_uri=model_uri, artifact_class=UnmanagedContainerModel)
    evaluated = evaluate(
        workload="mnist",
        thresholds=thresholds,
        examples=prepared.outputs["examples"],
        model=model.output,
    )
    endpoint = dsl.importer(
        artifact_uri=f"https://local/v1/{ENDPOINT}",
        artifact_class=VertexEndpoint,
        metadata={"resourceName": ENDPOINT},
    )
    predict(
        project="demo",
        location="local",
        endpoint=endpoint.output,
        golden=evaluated.outputs["golden"],
    )


@pytest.fixture(scope="module")
def model_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An untrained model, exported as the trainer does."""
    folder = tmp_path_factory.mktemp("model") / "model"
    workload = load_workload("mnist")
    export_model(workload.build_model(), workload, str(folder))
    return folder


@pytest.fixture
def served(model_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """An endpoint that answers from the model; the list holds the sizes of its requests."""
    predictor = load_predictor(str(model_dir))
    sizes: list[int] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            sizes.append(len(body["instances"]))
            data = json.dumps({"predictions": predictor.predict(body["instances"])}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    monkeypatch.setenv("VERTEX_EMULATOR_HOST", f"127.0.0.1:{server.server_port}")
    yield sizes
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def _local_runner(tmp_path: Path) -> Iterator[None]:
    local.init(local.SubprocessRunner(use_venv=False), pipeline_root=str(tmp_path / "root"))
    yield
    LocalExecutionConfig.instance = None


@pytest.mark.usefixtures("_local_runner")
def test_the_components_run_one_after_the_other(tmp_path, tiny_mnist, model_dir, served):
    steps(
        data_dir=str(tiny_mnist(num_train=60, num_test=20)),
        model_uri=str(model_dir),
        thresholds='{"accuracy": 0.0}',
        max_examples=64,
    )
    manifest = _artifact(tmp_path, "prepare-examples/examples") / "manifest.json"
    assert json.loads(manifest.read_text())["splits"]["test"]["num_examples"] == 16
    metrics = json.loads(_artifact(tmp_path, "evaluate/metrics").read_text())
    assert set(metrics) == {"accuracy", "loss", "num_examples"}
    assert metrics["num_examples"] == 16
    golden = json.loads(_artifact(tmp_path, "evaluate/golden").read_text())
    assert golden["labels"] == [str(digit) for digit in range(10)]
    assert "data:image/png" in _artifact(tmp_path, "evaluate/report.html").read_text()
    assert served == [10] + [1] * 10
    measured = json.loads(_artifact(tmp_path, "predict/metrics").read_text())
    assert measured["max_probability_difference"] <= 1e-5


def test_the_artifact_types_are_googles_in_the_compiled_pipeline(tmp_path):
    compiler.Compiler().compile(steps, str(tmp_path / "steps.yaml"))
    text = (tmp_path / "steps.yaml").read_text()
    for title in ("google.UnmanagedContainerModel", "google.VertexEndpoint"):
        assert f"schemaTitle: {title}" in text


def _artifact(tmp_path: Path, name: str) -> Path:
    found = list((tmp_path / "root").glob(f"*/{name}"))
    assert len(found) == 1, f"{name}: {sorted((tmp_path / 'root').rglob('*'))}"
    return found[0]
