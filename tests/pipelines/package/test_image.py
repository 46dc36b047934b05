"""The image: its name depends on the source; its content is what its three uses need."""

import json
import re
import shutil

import pytest
from packaging.requirements import Requirement

from components.plan_training.prices import PRICES
from pipelines.cli import main
from pipelines.package.image import SOURCE_ROOT, SOURCES, default_image, source_digest
from vertex_local.tests.support.docker_command import docker

MAX_BYTES = 3e9
NUM_SOURCE_LAYERS = 3  # trainer, components, bytecode of both


@pytest.fixture
def source(tmp_path):
    """A small tree with each of SOURCES."""
    for name in SOURCES:
        if (SOURCE_ROOT / name).is_dir():
            (tmp_path / name).mkdir()
            (tmp_path / name / "step.py").write_text("x = 1\n")
        else:
            (tmp_path / name).write_text("a==1\n")
    return tmp_path


def run(image, *command):
    """Return the output of a command in a new container."""
    return docker("run", "--rm", "--network=none", image, *command)


def layers(image):
    """Return the digests of an image's layers, lowest first."""
    found: list[str] = json.loads(
        docker("image", "inspect", "--format", "{{json .RootFS.Layers}}", image)
    )
    return found


@pytest.mark.parametrize("name", SOURCES)
def test_digest_changes_with_each_source(source, name):
    before = source_digest(source)
    path = source / name
    changed = path / "step.py" if path.is_dir() else path
    changed.write_text(changed.read_text() + "# more\n")
    assert source_digest(source) != before


def test_digest_changes_with_a_name(source):
    before = source_digest(source)
    (source / "trainer/step.py").rename(source / "trainer/other.py")
    assert source_digest(source) != before


def test_digest_ignores_other_files(source):
    before = source_digest(source)
    (source / "README.md").write_text("new")
    (source / "tests").mkdir()
    (source / "tests/test_step.py").write_text("new")
    (source / "trainer/__pycache__").mkdir()
    (source / "trainer/__pycache__/step.pyc").write_text("new")
    assert source_digest(source) == before


def test_image_build_context_equals_the_digests_sources():
    let_through = re.findall(r"^!(\S+)", (SOURCE_ROOT / ".dockerignore").read_text(), re.M)
    copied = re.findall(r"^COPY (.+) \S+$", (SOURCE_ROOT / "Dockerfile").read_text(), re.M)
    assert sorted(let_through) == sorted(" ".join(copied).split())
    assert sorted(["Dockerfile", *let_through]) == sorted(SOURCES)


def test_the_price_table_is_in_the_image():
    # The exit task of a run on Vertex AI estimates the cost of the training from it.
    assert PRICES.is_file()
    assert PRICES.relative_to(SOURCE_ROOT).parts[0] in SOURCES


def test_command_prints_the_name(capsys):
    assert main(["image"]) == 0
    assert capsys.readouterr().out == f"{default_image()}\n"
    assert main(["image", "--repository", "host/p/r/trainyard", "--accelerator", "gpu"]) == 0
    tag = default_image().partition(":")[2]
    assert capsys.readouterr().out == f"host/p/r/trainyard:{tag}-gpu\n"


def test_image_is_small_and_its_user_is_not_root(container_image):
    assert int(docker("image", "inspect", "--format", "{{.Size}}", container_image)) < MAX_BYTES
    assert run(container_image, "id", "-u").strip() == "1000"


def test_image_holds_the_versions_of_the_lock_and_no_tools(container_image):
    has = run(container_image, "pip", "list", "--format=freeze").split()
    python = run(container_image, "python", "-c", "import platform as p; print(p.python_version())")
    lock = (SOURCE_ROOT / "requirements.lock").read_text()
    pins = [Requirement(line) for line in re.findall(r"^([\w.-]+==[^\\]+)", lock, re.M)]
    version = {"python_full_version": python.strip()}
    locked = [pin for pin in pins if not pin.marker or pin.marker.evaluate(version)]
    assert {_plain(f"{pin.name}{pin.specifier}") for pin in locked} <= {_plain(one) for one in has}
    assert not [one for one in has if one.startswith(("pytest==", "mypy==", "ruff=="))]


@pytest.mark.parametrize(
    ("module", "says"),
    [
        ("kfp.dsl.executor_main", "--component_module_path"),
        ("trainer.task", "--examples-dir"),
        ("trainer.serve", "AIP_STORAGE_URI"),
    ],
    ids=["step", "replica", "server"],
)
def test_image_starts_each_use(container_image, module, says):
    assert says in run(container_image, "python3", "-m", module, "--help")


def test_changed_code_leaves_the_layers_of_packages_as_they_are(container_image, tmp_path):
    base = docker("history", "--quiet", container_image).split()[-1]
    if base == "<missing>":
        pytest.skip("BuildKit made the image: what it was made from is not known")
    for name in (*SOURCES, ".dockerignore"):
        copy = shutil.copytree if (SOURCE_ROOT / name).is_dir() else shutil.copy
        copy(SOURCE_ROOT / name, tmp_path / name)
    (tmp_path / "trainer/new.py").write_text("NEW = 1\n")
    built = docker("build", "--quiet", "--build-arg", f"BASE={base}", str(tmp_path)).strip()
    try:
        assert "NEW" in run(built, "python3", "-c", "import trainer.new; print(dir(trainer.new))")
        before, after = layers(container_image), layers(built)
        same = [one for one, other in zip(before, after, strict=True) if one == other]
        assert len(before) - len(same) == NUM_SOURCE_LAYERS
    finally:
        docker("rmi", built)


def _plain(requirement):
    return re.sub(r"[-_.]+", "-", requirement).lower()
