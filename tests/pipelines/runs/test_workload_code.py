"""A user's folder from the command to the request: settings, snapshot, checks, labels."""

import json
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import Mock

import pytest
import yaml

from components.run_result.settings import project_digest, settings_of
from components.run_result.summary import summarize
from pipelines.cli import main
from pipelines.jobs.examples import examples_of
from pipelines.package.image import default_image
from pipelines.places.target import local_target
from pipelines.projects import description, user_code
from pipelines.projects.runs import find_run
from pipelines.runs.output.tables import run_lines, settings_text
from pipelines.runs.workload_code import with_code
from pipelines.schedules.file import read_schedules
from pipelines.schedules.plan import REQUEST, plan_schedule
from trainer.describe import _described as described

pytestmark = pytest.mark.timeout(120)

WORKLOAD = """\
import os
from pathlib import Path
from trainer.workloads.mnist import workload

print("printed while it is imported")
os.system("echo printed below Python")
with Path({pids!r}).open("a") as pids:
    pids.write(f"{{os.getpid()}} ")
"""
RUN = """\
cluster: {strategy: parameter_server, workers: 2, parameter_servers: 1}
train:
  epochs: 5
  learning_rate: 1e-3
thresholds: {accuracy: 0.9}
prepare: {files: [data/*.csv]}
endpoint_name: churners
"""
DATA = "prepare: {files: [data/a.csv]}\n"
PREPARE_KEY = ("workload", "data_dir", "prepare")  # besides the digest of the files
ON_VERTEX = ("--on", "vertex", "--project", "p", "--pipeline-root", "gs://b/r")
PULLABLE = ("--image", "us-docker.pkg.dev/p/r/i:1")


@contextmanager
def described_here(command: Sequence[str], **_environment: str) -> Iterator[Mock]:
    """Describe a workload in this process, not in one that imports everything anew."""
    text = json.dumps(described(command[1], json.loads(command[3])))
    yield Mock(**{"process.communicate.return_value": (text, None)})


@pytest.fixture
def churn(tmp_path: Path, monkeypatch) -> Path:
    """A project beside which commands run; it is imported in the process of the test."""
    monkeypatch.setattr(description, "running", described_here)
    monkeypatch.setenv("TRAINYARD_DIR", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "churn"
    (folder / "data").mkdir(parents=True)
    (folder / "data/a.csv").write_text("x\n")
    (folder / "workload.py").write_text("from trainer.workloads.mnist import workload\n")
    (folder / "run.yaml").write_text(RUN)
    return folder


def request_of(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict:
    assert main(["submit", "--dry-run", "--json", *arguments]) == 0, capsys.readouterr().err
    return json.loads(capsys.readouterr().out)


def values_of(request: dict) -> dict:
    return request["runtimeConfig"]["parameterValues"]


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main([*arguments]) == 2
    return capsys.readouterr().err


@pytest.mark.parametrize("reference", ["churn/", "./churn/workload.py"])
def test_the_request_has_the_settings_of_run_yaml_and_the_snapshot(churn, capsys, reference):
    values = values_of(
        request_of(capsys, reference, "--set", "train.epochs=7", "--set", "thresholds.loss=0.5")
    )
    assert json.loads(values["train"]) == {"epochs": 7, "learning_rate": 0.001}
    assert json.loads(values["thresholds"]) == {"accuracy": 0.9, "loss": 0.5}
    assert json.loads(values["cluster"])["workers"] == 2
    assert json.loads(values["prepare"]) == {"files": [f"{churn}/data/*.csv"]}
    assert (values["model_name"], values["endpoint_name"]) == ("churn", "churners")
    state = churn.parent / "state"
    assert values["data_dir"] == str(state / "cache/churn")
    snapshot = Path(values["workload"])
    assert re.fullmatch(r"churn-[0-9a-f]{12}", snapshot.name)
    assert [path.name for path in snapshot.iterdir() if path.is_file()] == ["workload.py"]
    assert snapshot.parent == state / "code"


def test_without_run_yaml_there_are_defaults(churn, capsys):
    (churn / "run.yaml").unlink()
    folder = churn.rename(churn.with_name("My Churn 2"))
    values = values_of(request_of(capsys, str(folder)))
    assert (values["model_name"], values["endpoint_name"]) == ("my-churn-2", "my-churn-2")
    assert (values["train"], values["thresholds"]) == ("{}", "{}")
    assert json.loads(values["cluster"])["strategy"] == "single"


def test_an_edit_changes_the_next_run_only(churn, capsys):
    first = values_of(request_of(capsys, "churn"))["workload"]
    before = Path(first, "workload.py").read_text()
    (churn / "run.yaml").write_text(RUN.replace("epochs: 5", "epochs: 1"))
    assert values_of(request_of(capsys, "churn"))["workload"] == first, "settings are no code"
    (churn / "workload.py").write_text(before + "# more\n")
    assert values_of(request_of(capsys, "churn"))["workload"] != first
    assert Path(first, "workload.py").read_text() == before


def test_no_code_of_the_user_runs_in_the_commands_process(churn, capfd, monkeypatch):
    monkeypatch.setattr(description, "running", user_code.running)
    pids = churn.parent / "pids"
    (churn / "workload.py").write_text(WORKLOAD.format(pids=str(pids)))
    assert main(["submit", "--dry-run", "--json", "churn"]) == 0
    json.loads(capfd.readouterr().out)  # what the user's code prints is not in it
    [pid] = pids.read_text().split()
    assert pid != str(os.getpid())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1\nraise RuntimeError('no luck')\n", "workload.py, line 2: RuntimeError: no luck"),
        ("def (:\n", "workload.py, line 1: "),
        ("import exits\n", "it exits while it is imported, with 7"),
        ("import os\nos._exit(9)\n", "ended with exit code 9"),
        ("x = 1\n", "does not define the variable 'workload'"),
    ],
)
def test_a_workload_that_cannot_be_loaded_is_named_before_anything_starts(
    churn, capsys, monkeypatch, text, message
):
    monkeypatch.setattr(description, "running", user_code.running)
    (churn / "workload.py").write_text(text)
    (churn / "exits.py").write_text("import sys\nsys.exit(7)\n")
    for command in ("submit", "run", "compile") if "luck" in text else ("run",):
        error = refused(capsys, command, "churn")
        assert message in error
        assert "/state/code/" not in error, "the user's file, not its copy"
        assert f"{churn}" in error or "exits" in error
    assert not list((churn.parent / "state").glob("vertex*"))


def test_light_commands_do_not_load_a_workload_that_fails(churn, capsys):
    (churn / "workload.py").write_text("raise SystemExit('it is imported')\n")
    single = Path("single.yaml")
    single.write_text("strategy: single\n")
    assert main(["cluster", "explain", str(single), "--workload", "churn/"]) == 0
    assert main(["image", "--project", "churn/"]) == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("train: {epoch: 5}\n", r"run\.yaml, line 1: .*'train\.epoch'.*did you mean 'train\.ep"),
        ("\nmodel_nam: x\n", r"run\.yaml, line 2: .*did you mean 'model_name'"),
        ("train:\n  epochs: 1\n  batch_size: 0\n", r"run\.yaml, line 3: train\.batch_size is 0"),
        ("train: 5\n", r"run\.yaml, line 1: train is 5; it must hold keys"),
        ("train: {epochs: 1}\ntrain: {epochs: 2}\n", "line 2: train is given twice.*line 1"),
        ("a: [\n", r"run\.yaml: it is not YAML, line 2"),
        ("- 1\n", "must hold keys and values"),
        ("cluster: {workers: -1, spot: maybe}\n", r"line 1: cluster has 2 mistakes"),
        ("cluster: nowhere.yaml\n", r"cannot read the cluster file .*churn/nowhere\.yaml"),
        ("workload: mnist\n", r"line 1: unknown key 'workload'"),
        ("labels: {Team: x}\n", r"line 1: labels\.Team"),
        ("on_failure_url: ftp://x\n", r"line 1: on_failure_url"),
        ("prepare: {files: [data/none-*.csv]}\n", r"prepare\.files .*churn/data/none-.*no such"),
    ],
)
def test_a_mistake_in_run_yaml_is_named_with_its_line(churn, capsys, text, message):
    (churn / "run.yaml").write_text(text)
    assert re.search(message, refused(capsys, "submit", "--dry-run", "churn"))


def test_a_cluster_file_is_relative_to_the_folder(churn, capsys):
    (churn / "big.yaml").write_text("machine: n1-standard-16\n")
    (churn / "run.yaml").write_text("cluster: big.yaml\nkeep_endpoint: true\n")
    values = values_of(request_of(capsys, "churn"))
    assert json.loads(values["cluster"])["machine"] == "n1-standard-16"
    assert values["keep_endpoint"] is True


def test_settings_of_training_are_checked_against_the_workload(churn, capsys):
    error = refused(capsys, "submit", "--dry-run", "churn", "--set", "train.model=resnet")
    assert "resnet" in error
    assert "cnn" in error


def test_missing_requirements_are_named_before_the_workload_is_loaded(churn, capsys):
    (churn / "requirements.txt").write_text("no-such-package\n")
    (churn / "workload.py").write_text("import no_such_package\n")
    error = refused(capsys, "run", "churn/")
    assert "no-such-package (not installed)" in error
    assert f"pip install -r {churn}/requirements.txt" in error


def test_on_vertex_the_parameter_is_the_name_in_the_image(churn, capsys, caplog):
    (churn / "run.yaml").write_text("prepare: {files: ['gs://b/data.csv']}\n")
    values = values_of(request_of(capsys, "churn", *ON_VERTEX, *PULLABLE))
    assert re.fullmatch(r"churn-[0-9a-f]{12}", values["workload"])
    error = refused(capsys, "submit", "--dry-run", "churn", *ON_VERTEX)
    assert f"{default_image()}-{values['workload']}" in error
    (churn / "requirements.txt").write_text("no-such-package\n")
    (churn / "workload.py").write_text("import no_such_package\n")
    request_of(capsys, "churn", *ON_VERTEX, *PULLABLE)
    assert "is not checked before it is sent" in caplog.text


def test_an_image_with_other_code_of_the_folder_is_refused(churn, capsys):
    (churn / "run.yaml").write_text("prepare: {files: ['gs://b/data.csv']}\n")
    workload = values_of(request_of(capsys, "churn", *ON_VERTEX, *PULLABLE))["workload"]
    base = "eu-docker.pkg.dev/p/r/i:src-0123456789ab-gpu"
    request_of(capsys, "churn", *ON_VERTEX, "--image", f"{base}-{workload}")
    assert main(["image", "--project", "churn"]) == 0
    assert capsys.readouterr().out.strip().endswith(f"-{workload}")
    other = f"{base}-churn-000000000000"
    error = refused(capsys, "submit", "--dry-run", "churn", *ON_VERTEX, "--image", other)
    assert f"has churn-000000000000, but the code is {workload} now" in error


def test_settings_of_the_data_do_not_change_the_digest(churn, capsys):
    assert main(["image", "--project", "churn"]) == 0
    workload = capsys.readouterr().out.strip().partition("-churn-")[2]
    given = ["--set", "prepare.files=gs://b/data.csv"]
    values = values_of(request_of(capsys, "churn", *ON_VERTEX, *PULLABLE, *given))
    assert values["workload"] == f"churn-{workload}"


def test_local_data_is_refused_on_vertex(churn, capsys):
    error = refused(capsys, "submit", "--dry-run", "churn", *ON_VERTEX, *PULLABLE)
    assert re.search(r"prepare\.files is .*a\*?.*csv.* copy it to a bucket", error)


def test_a_compiled_folder_runs_from_its_snapshot(churn, capsys):
    assert main(["compile", "churn/"]) == 0
    assert capsys.readouterr().out == "dist/churn.yaml\n"
    package = Path("dist/churn.yaml")
    text = package.read_text()
    spec = yaml.safe_load(text)
    default = spec["root"]["inputDefinitions"]["parameters"]["workload"]["defaultValue"]
    assert re.fullmatch(r"churn-[0-9a-f]{12}", default)
    assert spec["pipelineInfo"]["name"] == "train-and-deploy-churn"
    assert f"{default_image()}-{default}" in text
    assert str(churn.parent / "state") not in text, "the same file for every machine"
    request = request_of(capsys, str(package))
    assert values_of(request)["workload"] == str(churn.parent / "state/code" / default)
    assert request["displayName"].startswith("churn-2")
    assert package.read_text() == text
    error = refused(capsys, "submit", str(package), "--set", "thresholds.rmse=0.5")
    assert re.search(r"thresholds\.rmse: .*Classes.* loss, accuracy", error)
    remote = request_of(capsys, "churn", *PULLABLE)
    assert values_of(remote)["workload"] == values_of(request)["workload"]
    (churn.parent / "state/code" / default).rename(churn.parent / "gone")
    assert re.search(
        f"needs the code {default}.*compile", refused(capsys, "submit", "dist/churn.yaml")
    )


@pytest.fixture
def nightly(churn):
    """Write a schedule beside the workload; return its folder."""
    folder = churn / "schedules"
    folder.mkdir()

    def write(workload: str, parameters: str = "{}") -> Path:
        text = f"workload: {workload}\ncron: 0 3 * * *\nparameters: {parameters}\n"
        (folder / "nightly.yaml").write_text(text)
        return folder

    return write


@pytest.mark.parametrize("base", ["/", "{}", "{}/schedules"])
def test_a_schedule_names_a_folder_relative_to_its_file(churn, nightly, monkeypatch, base):
    folder = nightly("../", "{train.epochs: 2}")
    monkeypatch.chdir(base.format(churn))
    [file] = read_schedules(Path(os.path.relpath(folder)))
    wanted = plan_schedule(file, target=local_target(churn.parent / "state"))
    values = values_of(wanted.body[REQUEST]["pipelineJob"])
    assert Path(values["workload"]).parent == churn.parent / "state/code"
    assert Path(values["workload"]).is_dir()
    assert json.loads(values["train"]) == {"epochs": 2, "learning_rate": 0.001}
    assert values["keep_endpoint"] is True


def test_a_schedule_of_a_missing_folder_is_named(nightly, capsys):
    for workload, message in (
        ("nowhere/", "nightly.yaml: workload: nowhere/: there is no folder"),
        ("./", "no workload.py"),
    ):
        assert message in refused(capsys, "schedule", "apply", str(nightly(workload)))


def test_runs_are_shown_with_the_name_and_the_digest(churn, capsys):
    request = request_of(capsys, "churn", "--set", "labels.team=a")
    job = {**request, "name": "projects/p/locations/l/pipelineJobs/r", "state": "PENDING"}
    summary = summarize(job)
    digest = Path(values_of(request)["workload"]).name.removeprefix("churn-")
    assert (summary.workload, summary.project_digest) == ("churn", digest)
    assert summary.code_digest == default_image().partition("src-")[2]
    assert project_digest(job) == digest
    assert settings_of(job)["workload"] == "churn"
    lines = "\n".join(run_lines(summary, job))
    assert f"churn {digest}" in lines
    assert "train.epochs=5" in settings_text(summary.settings)
    assert "workload" not in settings_text(summary.settings)
    assert "/state/code" not in settings_text(summary.settings)


def test_a_job_of_a_folder_has_its_snapshot_and_its_settings(churn, capsys):
    assert main(["jobs", "submit", "churn", "--dry-run", "--", "--epochs", "2"]) == 0
    request = json.loads(capsys.readouterr().out)
    [chief, *_] = request["jobSpec"]["workerPoolSpecs"]
    flags = chief["containerSpec"]["args"]
    [workload] = [flag for flag in flags if flag.startswith("--workload=")]
    assert re.search(r"state/code/churn-[0-9a-f]{12}$", workload)
    assert "--epochs=2" in flags
    assert request["displayName"].startswith("churn-2")


TABLE = """\
from trainer.workloads import Binary, Number, Table

def model(inputs, *, units=16, rate=0.1, name="a"): ...

workload = Table(features=[Number("x")], label=Binary("y"), model=model)
"""


def test_settings_of_the_model_travel_with_the_types_it_declares(churn, capsys):
    (churn / "workload.py").write_text(TABLE)
    (churn / "run.yaml").write_text(f"{DATA}model: {{units: 8, rate: 1}}\n")
    settings = ["model.units=128", "model.name=2026"]
    words = [word for setting in settings for word in ("--set", setting)]
    request = request_of(capsys, "churn", *words)
    train = json.loads(values_of(request)["train"])
    assert train == {"model.units": 128, "model.rate": 1.0, "model.name": "2026"}
    assert isinstance(train["model.rate"], float)
    assert settings_of(request)["model.units"] == 128
    assert main(["jobs", "submit", "churn", "--dry-run", "--", "--model.rate=2e-3"]) == 0
    [chief] = json.loads(capsys.readouterr().out)["jobSpec"]["workerPoolSpecs"]
    flags = chief["containerSpec"]["args"]
    assert {"--model.units=8", "--model.rate=0.002"} <= set(flags)


@pytest.mark.parametrize(
    ("text", "setting", "message"),
    [
        ("", "model.unit=3", r"model\.unit.*did you mean 'units'"),
        ("", "model.units=many", r"model\.units is 'many'.*whole number"),
        ("model: {units: many}", "", r"churn/run\.yaml, line 2: model\.units"),
        ("train: {model: many}", "", r"churn/run\.yaml, line 2: train\.model"),
        ("model: {units: many}", "model.units=other", "^(?!.*line 2: model).*other"),
        ("train: {model: many}", "train.model=other", "^(?!.*line 2: train).*other"),
        (
            "thresholds: {auc: 0.5}",
            "",
            r"run\.yaml, line 2: thresholds\.auc: .*Regression.*loss, mae, rmse, r2",
        ),
        ("thresholds: {rmse: {atmost: 3}}", "", r"line 2: .*'atmost'.*did you mean 'at_most'"),
        ("", "thresholds.f1=1", r"trainyard: thresholds\.f1: .*Regression"),
        ("", "thresholds.specificity.at_least=0.7", r"thresholds\.specificity: .*no such metric"),
        ("gate:\n  slices:\n    - plam = a", "", r"line 4: gate\.slices has 'plam = a', but"),
        (None, "", r"churn has no data.*run\.yaml.*prepare\.files"),
    ],
)
def test_a_mistake_in_the_settings_of_a_table_is_named(churn, capsys, text, setting, message):
    (churn / "workload.py").write_text(TABLE.replace("Binary", "Regression"))
    (churn / "run.yaml").write_text("" if text is None else f"{DATA}{text}\n")
    error = refused(capsys, "run", "churn", *(["--set", setting] if setting else []))
    assert re.search(message, error, re.DOTALL), error


def test_a_metric_of_a_compiled_model_needs_a_direction(churn, capsys):
    (churn / "workload.py").write_text(TABLE + "\n# it calls model.compile(…)\n")
    (churn / "run.yaml").write_text(f"{DATA}thresholds: {{mape: 1}}\n")
    error = refused(capsys, "run", "churn")
    assert re.search(r"run\.yaml, line 2: thresholds\.mape is 1; .*\{at_least: 1\}", error)


def test_a_threshold_has_a_direction(churn, capsys):
    (churn / "workload.py").write_text(TABLE.replace("Binary", "Regression"))
    (churn / "run.yaml").write_text(f"{DATA}thresholds: {{rmse: {{at_most: 9}}, r2: 0.5}}\n")
    given = ["--set", "thresholds.rmse.at_most=3.2", "--set", "thresholds.mae=2"]
    request = request_of(capsys, "churn", *given)
    thresholds = {"rmse": {"at_most": 3.2}, "r2": 0.5, "mae": 2.0}
    assert json.loads(values_of(request)["thresholds"]) == thresholds
    settings = settings_of(request)
    assert (settings["thresholds.rmse.at_most"], settings["thresholds.mae"]) == (3.2, 2)


def test_a_job_prepares_the_data_of_a_folder_once_for_each_state(churn, capsys):
    (churn / "run.yaml").write_text(
        "prepare:\n  files: [data/*.csv]\n  ratios: {train: 0.5, eval: 0.25, test: 0.25}\n"
        "  num_shards: {train: 3}\n"
    )
    target = local_target(churn.parent / "state")

    def examples():
        return examples_of(
            with_code(find_run("churn"), target, uses_image=False), target, examples_dir=None
        )

    found = examples()
    assert found.request["options"] == {
        "files": (f"{churn}/data/*.csv",),
        "ratios": {"train": 0.5, "eval": 0.25, "test": 0.25},
        "num_shards": {"train": 3},
        "beam_options": (),
    }
    assert re.search(r"state/examples/churn-[0-9a-f]{12}$", found.uri)
    Path(found.uri).mkdir(parents=True)
    Path(found.uri, "manifest.json").write_text("{}")
    assert examples().request is None
    (churn / "data/a.csv").write_text("x\n1\n")
    assert examples().request
    assert examples().uri != found.uri


def test_an_entry_point_is_found_by_its_name(churn, capsys, monkeypatch):
    packages = churn.parent / "packages"
    (packages / "churn_models-1.dist-info").mkdir(parents=True)
    (packages / "churn_models-1.dist-info/entry_points.txt").write_text(
        "[trainyard.workloads]\nbest-churn = churn_models.churn\n"
    )
    (packages / "churn_models").mkdir()
    (packages / "churn_models/__init__.py").write_text("")
    (packages / "churn_models/churn.py").write_text((churn / "workload.py").read_text())
    monkeypatch.syspath_prepend(str(packages))
    values = values_of(request_of(capsys, "best-churn"))
    assert re.fullmatch("best-churn@[0-9a-f]{12}", values["workload"])
    assert (values["model_name"], values["endpoint_name"]) == ("best-churn", "best-churn")
    (packages / "churn_models/more.py").write_text("x = 1\n")
    edited = values_of(request_of(capsys, "best-churn"))
    assert edited["workload"] != values["workload"], "the keys of the step cache change"
    assert edited["data_dir"] == values["data_dir"] == str(churn.parent / "state/cache/best-churn")
    assert "did you mean 'best-churn'" in refused(capsys, "run", "best-chrun")


def test_a_module_travels_by_its_name(churn, capsys):
    request = request_of(capsys, "trainer.workloads.mnist")
    values = values_of(request)
    assert re.fullmatch(r"trainer\.workloads\.mnist@[0-9a-f]{12}", values["workload"])
    assert values["model_name"] == "mnist"
    assert settings_of(request)["workload"] == "mnist"
    assert project_digest(request) == values["workload"].partition("@")[2]
    assert "no module" in refused(capsys, "submit", "--dry-run", "no_such_package.churn")


def test_folders_of_one_name_share_no_cached_examples(churn, tmp_path, capsys, monkeypatch):
    def key(folder: Path) -> tuple:
        """The parameters in the key of prepare-examples."""
        values = values_of(request_of(capsys, str(folder)))
        return tuple(values[name] for name in PREPARE_KEY)

    keys = [key(churn)]
    for number, (name, text) in enumerate(
        [("data/a.csv", "x\n"), ("more.py", "x = 1\n"), ("workload.py", TABLE)]
    ):
        other = tmp_path / str(number) / "churn"
        shutil.copytree(churn, other)
        (other / name).write_text(text)
        keys.append(key(other))
    assert len(set(keys)) == len(keys)

    for name in ("mnist", "./churn"):
        for parent in ("one", "two"):
            folder = tmp_path / parent
            (folder / "data").mkdir(parents=True, exist_ok=True)
            shutil.copytree(churn, folder / "churn", dirs_exist_ok=True)
            monkeypatch.chdir(folder)
            values = values_of(request_of(capsys, name, "--data-dir", "data"))
            assert values["data_dir"] == str(folder / "data" / Path(name).name)
