"""A damaged or replaced file of a version is refused by its name, by whatever would use it."""

import shutil
from functools import partial
from pathlib import Path

import pytest

from components.errors import StepError
from components.evaluate.gate.champion import NotComparableError, load_champion
from components.model_version.champion import check_registered, default_champion
from components.model_version.companions import (
    COMPANIONS,
    GOLDEN_FILE,
    RUN_DIGESTS_FILE,
    write_companion,
)
from components.model_version.registry import find_model
from pipelines.serving.batch import find_version
from tests.support.data.files import flipped
from tests.support.data.untrained import export_untrained
from tests.support.servers.models import versions
from trainer.errors import InputError
from trainer.serve import load_ready_predictor
from trainer.serving.digests import DIGESTS_FILE
from trainer.workloads import load_workload

pytestmark = pytest.mark.timeout(180)

IMAGE = [[9 * row] * 28 for row in range(28)]
OF_THE_MODEL = (
    "saved_model.pb",
    "fingerprint.pb",
    "workload.json",
    DIGESTS_FILE,
    "variables/variables.data-00000-of-00001",
    "variables/variables.index",
)
OF_THE_RUN = (*sorted(COMPANIONS), RUN_DIGESTS_FILE)


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """A model with all files that a run writes beside it."""
    folder = tmp_path_factory.mktemp("exported") / "model"
    predictions = export_untrained(folder).predict([IMAGE])
    for name in COMPANIONS:
        content = {"instances": [IMAGE], "predictions": predictions, "labels": ["9"]}
        write_companion(str(folder), name, content if name == GOLDEN_FILE else {"splits": {}})
    assert {path.relative_to(folder).as_posix() for path in folder.rglob("*.*")} == {
        *OF_THE_MODEL,
        *OF_THE_RUN,
    }
    return folder


@pytest.fixture
def version(exported, trainyard, api):
    """The record of an uploaded version, whose folder the service has copied."""
    assert trainyard("models", "upload", str(exported), "--name", "m")[0] == 0
    [record] = versions(api).values()
    return record


def load_default(api):
    """Load the default version as the champion of a run."""
    known = default_champion(api, find_model(api, "m"))
    load_champion(known, load_workload("mnist"))


DAMAGES = {"flipped": flipped, "cut": lambda data: data[:-1], "removed": None}
LISTS = (DIGESTS_FILE, RUN_DIGESTS_FILE)


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_file_of_a_version_is_named_and_never_served(version, api, trainyard, damage):
    folder = Path(version["artifactUri"])
    for name in (*OF_THE_MODEL, *OF_THE_RUN):
        path = folder / name
        content = path.read_bytes()
        path.write_bytes(damage(content)) if damage else path.unlink()
        if not damage and name in LISTS:
            check_registered(version)  # as of an earlier version; all other files are whole
        else:
            doors = [partial(find_version, api, "m")]
            if name in OF_THE_MODEL:
                doors += [partial(load_ready_predictor, str(folder)), partial(load_default, api)]
            for door in doors:
                with pytest.raises((InputError, NotComparableError), match="copy the") as raised:
                    door()
                assert str(folder if name in LISTS else path) in str(raised.value)
            code, _, error = trainyard("endpoints", "deploy", "m@1")
            assert (code, len(error.splitlines())) == (1, 1), error
            assert str(folder if name in LISTS else path) in error
        path.write_bytes(content)
    assert list(api.list_resources("endpoints")) == []
    check_registered(version)


def test_a_damaged_name_in_the_digests_is_noticed(version):
    path = Path(version["artifactUri"], RUN_DIGESTS_FILE)
    path.write_bytes(path.read_bytes().replace(b"folds", b"fnlds"))
    with pytest.raises(InputError, match=r"folds.json differs"):
        check_registered(version)


@pytest.mark.parametrize("has_digests", [True, False])
def test_another_model_in_the_folder_of_a_version_is_refused(version, api, trainyard, has_digests):
    folder = version["artifactUri"]
    shutil.rmtree(folder)
    export_untrained(Path(folder))
    if not has_digests:
        Path(folder, DIGESTS_FILE).unlink()
    load_ready_predictor(folder)
    for door in (partial(find_version, api, "m"), partial(load_default, api)):
        with pytest.raises((StepError, NotComparableError), match=f"{folder} has other files"):
            door()
    code, _, error = trainyard("endpoints", "deploy", "m@1")
    assert (code, f"{folder} has other files than" in error) == (1, True)


def test_a_damaged_model_is_not_uploaded(exported, tmp_path, trainyard):
    folder = shutil.copytree(exported, tmp_path / "m")
    path = folder / "saved_model.pb"
    path.write_bytes(flipped(path.read_bytes()))
    code, _, error = trainyard("models", "upload", str(folder), "--name", "m")
    assert (code, f"{path} differs by its SHA-256" in error) == (2, True)
