"""Loading of workloads from built-in names, modules, entry points and files of users."""

import importlib.metadata
import sys
from pathlib import Path

import pytest

from trainer.references import is_path, workload_name
from trainer.workloads.loading import WorkloadError, load_workload

pytestmark = pytest.mark.fast

WORKLOAD = """
from dataclasses import dataclass
from trainer.workloads import Regression, Workload

class Price(Workload):
    def __init__(self):
        super().__init__(label=Regression("price"))
    def default_models(self): return dict(net=lambda inputs: inputs)
    def default_recipe(self): ...
    def model_inputs(self): ...
    def build_model(self, model=""): return {model}
    def parse(self, serialized): ...
    def preprocess(self, features): ...
    def input_specs(self): ...
    def parse_instance(self, instance): ...
    def format_instance(self, features): ...

workload = Price()
"""


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Write files to a folder named churn; the modules of a test are forgotten after it."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    known = set(sys.modules)

    def write_files(folder="churn", **files):
        for name, text in files.items():
            path = tmp_path / folder / (name.replace("__", "/") + ".py")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return str(tmp_path / folder)

    yield write_files
    for name in set(sys.modules) - known:
        del sys.modules[name]


def test_a_folder_is_a_workload_with_its_name(write):
    folder = write(workload=WORKLOAD.format(model=1))
    found = load_workload(folder)
    assert (found.name, found.reference) == ("churn", folder)
    assert type(load_workload(f"{folder}/workload.py")) is type(found)
    assert workload_name(folder) == workload_name(f"{folder}/workload.py") == "churn"


def test_a_relative_path_and_a_single_file_are_workloads(write, monkeypatch):
    folder = Path(write(price=WORKLOAD.format(model=1)))
    monkeypatch.chdir(folder)
    assert load_workload("price.py").name == "price"
    monkeypatch.chdir(folder.parent)
    (folder / "workload.py").write_text(WORKLOAD.format(model=2))
    for reference in ("churn", "churn/", "./churn"):
        assert load_workload(reference).name == "churn"
        assert load_workload(reference).reference == str(folder)


def test_helpers_of_a_folder_are_imported_in_both_ways_and_ours_are_not_hidden(write):
    text = "from . import helpers as mine\nimport helpers\nfrom . import trainer as theirs\n"
    text += "import trainer.workloads\nimport components.errors\nfrom .components import parts\n"
    text += WORKLOAD.format(model="mine.ONE, helpers.ONE, theirs.TWO, parts.THREE")
    folder = write(
        workload=text, helpers="ONE = 1", trainer="TWO = 2", components__parts="THREE = 3"
    )
    assert load_workload(folder).build_model() == (1, 1, 2, 3)
    assert sys.path[-1] == folder
    assert hasattr(sys.modules["trainer"], "__path__")
    assert load_workload("mnist").name == "mnist"


def test_two_folders_with_modules_of_the_same_names_are_kept_apart(write):
    text = "import helpers\nfrom . import more\n" + WORKLOAD.format(model="VALUES")
    text += "\nVALUES = helpers.ONE, more.TWO\n"
    folders = [
        write(folder=name, workload=text, helpers=f"ONE = '{name}'", more=f"TWO = '{name}'")
        for name in ("a", "b", "c")
    ]
    for folder in [*folders, *folders]:
        name = Path(folder).name
        assert load_workload(folder).build_model() == (name, name)


def test_a_changed_file_or_helper_is_loaded_again(write):
    text = "import helpers\n" + WORKLOAD.format(model="helpers.ONE")
    folder = write(workload=text, helpers="ONE = 1")
    assert load_workload(folder).build_model() == 1
    assert load_workload(folder).build_model() == 1
    write(helpers="ONE = 1 + 1")
    assert load_workload(folder).build_model() == 2


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x = 1\ny = undefined_name\n", r"workload\.py, line 2: NameError: .*undefined_name"),
        ("def (:\n", r"workload\.py, line 1: "),
        ("import no_such_module\n", r"workload\.py, line 1: ModuleNotFoundError: .*no_such_module"),
        ("from . import helpers\n", r"helpers\.py, line 3: ZeroDivisionError"),
        ("x = 1\n", r"workload\.py does not define the variable 'workload'; add"),
        ("workload = 5\n", r"workload is int 5; it must be a Table"),
        (WORKLOAD.format(model=1) + "workload = Price\n", r"is the class Price; call it"),
        (WORKLOAD.replace("workload = ", "job = "), r"variable 'workload'; rename 'job'"),
    ],
)
def test_a_file_that_defines_no_workload_is_named_with_its_line(write, text, words):
    folder = write(workload=text, helpers="\n\n1 / 0")
    for _ in range(2):
        with pytest.raises(WorkloadError, match=words):
            load_workload(folder)


def test_a_missing_file_is_named_with_what_to_do(write, tmp_path):
    folder = write(churn_model="", below__workload="")
    with pytest.raises(WorkloadError, match=r"no workload\.py; did you mean .*churn/below"):
        load_workload(folder)
    (tmp_path / "churn/below/workload.py").unlink()
    with pytest.raises(WorkloadError, match=r"no workload\.py; it has churn_model\.py"):
        load_workload(folder)
    (tmp_path / "churn/churn_model.py").unlink()
    with pytest.raises(WorkloadError, match=r"no workload\.py; write one"):
        load_workload(folder)
    with pytest.raises(WorkloadError, match=r"there is no folder .*/none"):
        load_workload(f"{tmp_path}/none")
    with pytest.raises(WorkloadError, match=r"there is no file .*churn/none\.py"):
        load_workload(f"{folder}/none.py")


def test_a_name_is_suggested():
    with pytest.raises(WorkloadError, match="'mnits' is not a workload; did you mean 'mnist'"):
        load_workload("mnits")
    with pytest.raises(WorkloadError, match="'' is not a workload; allowed are cifar10"):
        load_workload("")


def test_the_digest_of_a_module_is_only_for_cache_keys():
    found = load_workload("trainer.workloads.mnist@0123456789ab")
    assert (found.name, found.reference) == ("mnist", "trainer.workloads.mnist")
    assert workload_name("teams.churn@0123456789ab") == "churn"


def test_a_snapshot_has_the_name_of_its_folder_and_is_found_in_an_image(write, monkeypatch):
    name = "churn-0123456789ab"
    folder = Path(write(folder=name, workload=WORKLOAD.format(model=1)))
    assert (load_workload(str(folder)).name, workload_name(name)) == ("churn", "churn")
    with pytest.raises(WorkloadError, match="trainyard image --project"):
        load_workload(name)
    monkeypatch.setenv("TRAINYARD_WORKLOADS", str(folder.parent))
    for reference in (name, f"/of/another/machine/{name}"):
        found = load_workload(reference)
        assert (found.name, found.reference) == ("churn", name)


def test_a_module_is_a_workload(write, tmp_path, monkeypatch):
    write(folder="teams_of_tests", churn__workload=WORKLOAD.format(model=1), broken="\n1 / 0")
    monkeypatch.syspath_prepend(str(tmp_path))
    found = load_workload("teams_of_tests.churn.workload")
    assert (found.name, found.reference) == ("churn", "teams_of_tests.churn.workload")
    with pytest.raises(WorkloadError, match=r"no module 'teams_of_tests\.none'"):
        load_workload("teams_of_tests.none")
    with pytest.raises(WorkloadError, match=r"broken\.py, line 2: ZeroDivisionError"):
        load_workload("teams_of_tests.broken")


@pytest.mark.parametrize("value", ["teams_of_entries.churn", "teams_of_entries.churn:workload"])
def test_an_entry_point_is_a_workload(write, tmp_path, monkeypatch, value):
    write(folder="teams_of_entries", churn=WORKLOAD.format(model=1))
    monkeypatch.syspath_prepend(str(tmp_path))
    entries = [
        importlib.metadata.EntryPoint(name, value, "trainyard.workloads")
        for name, value in (("leavers", value), ("broken", "teams_of_entries.none"))
    ]
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda *, group: entries)
    found = load_workload("leavers")
    assert (found.name, found.reference) == ("leavers", "leavers")
    with pytest.raises(WorkloadError, match=r"did you mean 'leavers'"):
        load_workload("leaver")
    with pytest.raises(WorkloadError, match=r"'broken' of trainyard\.workloads, .* fails: Module"):
        load_workload("broken")


def test_a_folder_with_the_name_of_a_built_in_workload_needs_a_slash(write, tmp_path, monkeypatch):
    write(folder="mnist", workload=WORKLOAD.format(model=1))
    monkeypatch.chdir(tmp_path)
    assert not is_path("mnist")
    assert load_workload("mnist").reference == "mnist"
    assert load_workload("./mnist").reference == str(tmp_path / "mnist")
