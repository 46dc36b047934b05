"""Images by digest, as a registry on this machine tells it."""

import http.server
import json
import threading

import pytest

from components.shared.vertex.task_details import images_in
from pipelines.cli import main
from pipelines.package import digests
from pipelines.package.registry import Uploaded
from pipelines.package.spec import read_package
from pipelines.places.target import vertex_target
from pipelines.runs.submit import plan_run
from trainer.errors import ConfigError

pytestmark = pytest.mark.fast

DIGEST = f"sha256:{'0123456789abcdef' * 4}"
ANSWERS = {"1": (200, DIGEST), "odd": (200, "sha256:1\r"), "secret": (403, ""), "2": (404, "")}


class Registry(http.server.BaseHTTPRequestHandler):
    """A registry with a repository p/r/trainyard."""

    def do_HEAD(self) -> None:
        """Return the digest of a tag."""
        folder, _, tag = self.path.rpartition("/")
        assert folder == "/v2/p/r/trainyard/manifests"
        assert "manifest.v2+json" in self.headers["Accept"]
        assert "Authorization" not in self.headers
        code, digest = ANSWERS[tag]
        self.send_response(code)
        self.send_header("Docker-Content-Digest", digest.strip())
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@pytest.fixture
def repository():
    digests.by_digest.cache_clear()
    with http.server.HTTPServer(("127.0.0.1", 0), Registry) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield f"127.0.0.1:{server.server_port}/p/r/trainyard"
        server.shutdown()
        thread.join(timeout=10)


def package(*images, address=""):
    executors = {f"e{n}": {"container": {"image": image}} for n, image in enumerate(images)}
    inputs = {"image": {"runtimeValue": {"constant": images[0]}}}
    tasks = {"t": {"inputs": {"parameters": inputs}}}
    spec = {
        "pipelineInfo": {"name": "n"},
        "root": {"dag": {"tasks": tasks}},
        "components": {},
        "deploymentSpec": {"executors": executors},
    }
    return read_package(json.dumps(spec), source="s", address=address)


def test_a_run_on_vertex_ai_names_its_images_by_digest(repository, tmp_path, caplog):
    """Also where they are arguments of a step, but not another tag that begins alike."""
    launcher = "gcr.io/ml-pipeline/google-cloud-pipeline-components:2.22.0"
    given = package(f"{repository}:1", launcher, f"{repository}:secret", f"{repository}@{DIGEST}")
    target = vertex_target(tmp_path, project="p", location=None, pipeline_root="gs://b")
    sent = plan_run(given, run="r", target=target, config=None).request["pipelineSpec"]

    images = [each["container"]["image"] for each in sent["deploymentSpec"]["executors"].values()]
    by_digest = f"{repository}@{DIGEST}"
    assert images == [by_digest, launcher, f"{repository}:secret", by_digest]
    [task] = sent["root"]["dag"]["tasks"].values()
    assert task["inputs"]["parameters"]["image"]["runtimeValue"]["constant"] == by_digest
    assert caplog.messages == [
        f"{repository}:1 is sent as {DIGEST}",
        f"{repository}:secret is sent by its tag, and what is pushed to it later runs: its digest"
        f" is unknown ({repository.partition('/')[0]} returned 403)",
    ]


@pytest.mark.parametrize(
    ("image", "reason"),
    [
        ("{repository}:odd", "returned 200"),
        ("127.0.0.1:1/p/r/trainyard:1", "refused"),
        ("ghcr.io/p/trainyard:1", "ghcr.io is no registry of Google's"),
        ("us-docker.pkg.dev.evil.example/p/r/trainyard:1", "is no registry of Google's"),
    ],
    ids=["no digest", "offline", "another registry", "a host that looks alike"],
)
def test_an_image_without_a_known_digest_keeps_its_tag(repository, image, reason, caplog):
    """No other host than Google's registries gets a token."""
    image = image.format(repository=repository)
    assert digests.by_digest(image) == image
    assert reason in caplog.text


def test_an_image_that_was_not_pushed_is_refused(repository):
    with pytest.raises(ConfigError, match="trainyard:2 is not in its registry; push it"):
        digests.by_digest(f"{repository}:2")


def test_a_package_at_an_address_is_unchanged(repository):
    given = package(f"{repository}:1", address="https://us-kfp.pkg.dev/p/r/n/latest")
    assert digests.with_digests(given) is given
    assert list(images_in(given.spec)) == [f"{repository}:1"]


def test_an_uploaded_package_names_its_images_by_digest(repository, tmp_path, monkeypatch):
    sent = []
    monkeypatch.setattr(
        "pipelines.package.registry.upload",
        lambda package, **_: sent.append(package) or Uploaded(name="n", version="1", addresses=()),
    )
    file = tmp_path / "package.yaml"
    file.write_text(package(f"{repository}:1").text)
    assert main(["upload", str(file), "--repository", "https://us-kfp.pkg.dev/p/r"]) == 0
    assert list(images_in(sent[0].spec)) == [f"{repository}@{DIGEST}"]


@pytest.mark.parametrize("command", [["jobs", "submit"], ["tune"]], ids=" ".join)
@pytest.mark.parametrize("is_in_file", [True, False], ids=["cluster file", "--image"])
def test_a_job_names_its_image_by_digest(repository, tmp_path, capsys, command, is_in_file):
    (tmp_path / "c.yaml").write_text(f"image: {repository}:{1 if is_in_file else 2}\n")
    image = [] if is_in_file else ["--image", f"{repository}:1"]
    options = ["--cluster", str(tmp_path / "c.yaml"), *image, "--examples-dir", "gs://b/e"]
    varied = ["--set", "train.steps=1,2"] if command == ["tune"] else []
    where = ["--on", "vertex", "--project", "p", "--pipeline-root", "gs://b/r", "--dry-run"]
    assert main([*command, "taxi", *options, *varied, *where]) == 0
    request = json.loads(capsys.readouterr().out)
    spec = request.get("jobSpec") or request["trialJobSpec"]
    [pool] = spec["workerPoolSpecs"]
    assert pool["containerSpec"]["imageUri"] == f"{repository}@{DIGEST}"
