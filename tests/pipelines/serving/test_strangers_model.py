"""A model from another author runs none of its code unless the user says so, at every door."""

import json
import shutil

import pytest

from components.endpoint.watch.step import read_workload
from components.errors import StepError
from components.evaluate.gate.champion import NotComparableError, load_champion
from components.model_version.champion import Champion
from components.model_version.recorded import serving_container
from components.model_version.saved_model import check_saved_model
from pipelines.cli import main
from pipelines.predictions.__main__ import main as batch_predict
from tests.support.data.untrained import export_untrained
from tests.support.servers.models import versions
from trainer.config.trust import OWN, Trust
from trainer.errors import TrainerError
from trainer.runtime.tensorflow_logs import import_tensorflow
from trainer.serve import load_ready_predictor
from trainer.serving.digests import DIGESTS_FILE
from trainer.workloads import load_workload

pytestmark = pytest.mark.timeout(180)

SNAPSHOT = "mine-0123456789ab"
CODE = """
import pathlib
pathlib.Path({mark!r}).touch()
from trainer.workloads.mnist import workload
"""


@pytest.fixture(scope="module")
def plain_model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plain") / "model"
    export_untrained(folder)
    return folder


@pytest.fixture
def mark(tmp_path):
    """The file that the stranger's code writes."""
    return tmp_path / "PWNED"


@pytest.fixture
def stranger(plain_model, tmp_path, mark, monkeypatch):
    """Copy a model whose description names code beside it, and go to the folder above."""

    def copy(reference="m/workload.py", **changes):
        folder = tmp_path / "m"
        shutil.copytree(plain_model, folder)
        (folder / "workload.py").write_text(CODE.format(mark=str(mark)))
        (folder / DIGESTS_FILE).unlink()
        path = folder / "workload.json"
        content = json.loads(path.read_text()) | {"workload": "x", "hooks": ["postprocess"]}
        path.write_text(json.dumps(content | {"reference": reference} | changes))
        monkeypatch.chdir(tmp_path)
        return folder

    return copy


@pytest.fixture
def digits(tmp_path):
    path = tmp_path / "digits.jsonl"
    path.write_text(json.dumps([0] * 784) + "\n")
    return str(path)


def test_upload_asks_for_trust_and_the_version_records_it(stranger, mark, trainyard, api):
    upload = ["models", "upload", str(stranger()), "--name", "m"]
    code, output, error = trainyard(*upload)
    assert (code, output, mark.exists()) == (2, "", False)
    for part in ("m/workload.json: ", "\"reference\": 'm/workload.py'", "--trust-code"):
        assert part in error
    assert trainyard(*upload, "--trust-code")[0] == 0
    assert mark.exists()
    [version] = versions(api).values()
    assert version["containerSpec"]["args"] == ["--trust-code"]


def test_predict_asks_for_trust(stranger, mark, digits, capfd):
    arguments = ["predict", str(stranger()), "--input", digits, "--output", "out"]
    assert main(arguments) == 2
    assert "--trust-code" in capfd.readouterr().err
    assert not mark.exists()


def test_batch_predict_asks_for_trust_and_its_parts_have_it(
    stranger, mark, digits, tmp_path, capsys
):
    arguments = {"model": str(stranger()), "inputs": [digits], "output_dir": str(tmp_path / "out")}
    assert batch_predict(json.dumps({**arguments, "options": {}, "trust": []})) == 2
    assert "--trust-code" in capsys.readouterr().err
    assert not mark.exists()
    trusting = {**arguments, "options": {}, "trust": ["--trust-code"]}
    assert batch_predict(json.dumps(trusting)) == 0
    assert mark.exists()


def test_a_deployed_server_asks_for_trust(stranger, mark):
    with pytest.raises(TrainerError, match=r"m/workload\.json: .*--trust-code"):
        load_ready_predictor(str(stranger()))
    assert not mark.exists()
    load_ready_predictor("m", trust=Trust(code=True))
    assert mark.exists()


def test_watch_asks_for_the_trust_of_the_version(stranger, mark):
    version = {"artifactUri": str(stranger())}
    with pytest.raises(StepError, match="--trust-code"):
        read_workload(version)
    assert not mark.exists()
    read_workload(version | {"containerSpec": serving_container("i", trust=OWN)})
    assert mark.exists()


def test_a_champion_is_not_loaded_with_a_strangers_code(stranger, mark):
    with pytest.raises(NotComparableError, match="names Python code"):
        load_champion(Champion(model_uri=str(stranger())), load_workload("mnist"))
    assert not mark.exists()


@pytest.mark.parametrize(
    "reference",
    [
        "m",
        "./m",
        "m/workload.py",
        "{here}/m",
        "../{name}/m/workload.py",
        "{state}/code/mine-0123456789ab/../../../m",
        "m.workload",
        "evil-0123456789ab",
        "m/evil-0123456789ab",
        "m@0123456789ab",
        "{here}/link.py",
        "{here}/mine-0123456789ab",
        "state/code/link.py",
        "mnist/../m",
    ],
)
def test_no_spelling_of_a_reference_is_the_users_own(
    reference, stranger, mark, tmp_path, monkeypatch
):
    state = tmp_path / "state"
    monkeypatch.setenv("TRAINYARD_DIR", str(state))
    monkeypatch.syspath_prepend(str(tmp_path))
    (state / "code" / SNAPSHOT).mkdir(parents=True)
    text = reference.format(here=tmp_path, name=tmp_path.name, state=state)
    folder = stranger(text)
    (folder / "evil-0123456789ab").mkdir()
    for copied in ("m/evil-0123456789ab", "evil-0123456789ab"):
        shutil.copytree(folder, tmp_path / copied, dirs_exist_ok=True)
    (tmp_path / "link.py").symlink_to(folder / "workload.py")
    (state / "code" / "link.py").symlink_to(folder / "workload.py")
    (tmp_path / SNAPSHOT).symlink_to(folder)
    with pytest.raises(StepError, match="--trust-code"):
        check_saved_model(str(folder))
    assert not mark.exists()


def test_a_description_without_a_declaration_names_code_too(stranger, mark):
    folder = stranger(hooks=[])
    content = json.loads((folder / "workload.json").read_text())
    del content["declaration"]
    (folder / "workload.json").write_text(json.dumps(content))
    with pytest.raises(StepError, match=r"\(for its declaration\).*--trust-code"):
        check_saved_model(str(folder))
    assert not mark.exists()


def test_the_code_of_own_runs_is_own(stranger, mark, tmp_path, monkeypatch):
    state = tmp_path / "state"
    snapshot = state / "code" / SNAPSHOT
    folder = stranger(str(snapshot))
    snapshot.mkdir(parents=True)
    (folder / "workload.py").rename(snapshot / "workload.py")
    with pytest.raises(StepError, match="--trust-code"):
        check_saved_model(str(folder))
    monkeypatch.setenv("TRAINYARD_DIR", str(state))
    assert check_saved_model(str(folder))
    assert mark.exists()


def test_a_graph_with_files_is_refused_without_its_flag(tmp_path, trainyard, digits, capsys, api):
    import_tensorflow()
    import tensorflow as tf

    module = tf.Module()
    spec = tf.TensorSpec([None], tf.string, name="x")
    module.serve = tf.function(lambda x: tf.map_fn(tf.io.read_file, x)).get_concrete_function(spec)
    folder = str(tmp_path / "sm")
    tf.saved_model.save(module, folder, signatures=module.serve)
    upload = ["models", "upload", folder, "--name", "m"]

    code, _, error = trainyard(*upload)
    assert code == 2
    assert "reaches outside the model: ReadFile; " in error
    assert "--trust-graph" in error
    with pytest.raises(TrainerError, match="--trust-graph"):
        load_ready_predictor(folder)
    arguments = {"model": folder, "inputs": [digits], "output_dir": str(tmp_path / "out")}
    assert batch_predict(json.dumps({**arguments, "options": {}, "trust": []})) == 2
    assert "--trust-graph" in capsys.readouterr().err
    assert trainyard(*upload, "--trust-graph")[0] == 0
    [version] = versions(api).values()
    assert version["containerSpec"]["args"] == ["--trust-graph"]
    load_ready_predictor(folder, trust=Trust(graph=True))


def test_a_benign_model_needs_no_flag(plain_model, trainyard, api):
    assert trainyard("models", "upload", str(plain_model), "--name", "m")[0] == 0
    [version] = versions(api).values()
    assert "args" not in version["containerSpec"]
    assert serving_container("i")["args"] == OWN.flags()
