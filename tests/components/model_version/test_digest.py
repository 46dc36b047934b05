"""The digest of a model's files."""

import pytest

from components.model_version.champion import model_digest
from components.model_version.companions import COMPANIONS, write_companion

pytestmark = pytest.mark.fast


@pytest.fixture
def model_dir(tmp_path):
    for name in ("a/b", "a-b", "saved_model.pb"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(name)
    return tmp_path


@pytest.mark.parametrize("name", sorted(COMPANIONS))
def test_the_draft_of_a_killed_step_is_not_part_of_the_model(name, model_dir, monkeypatch):
    before = model_digest(str(model_dir))

    def end(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as killed:
        killed.setattr("pathlib.Path.replace", end)
        with pytest.raises(KeyboardInterrupt):
            write_companion(str(model_dir), name, {})
    assert len(list(model_dir.rglob("*.tmp"))) == 1

    assert model_digest(str(model_dir)) == before
    write_companion(str(model_dir), name, {})
    assert model_digest(str(model_dir)) == before, "nor is what it writes"


def test_a_models_own_file_counts_even_under_a_companions_name(model_dir):
    before = model_digest(str(model_dir))
    (model_dir / "a" / "golden.json").touch()

    assert model_digest(str(model_dir)) != before


def test_an_export_s_random_fingerprint_is_not_part_of_the_model(model_dir):
    before = model_digest(str(model_dir))
    (model_dir / "fingerprint.pb").write_bytes(b"a random uuid")
    assert model_digest(str(model_dir)) == before
    (model_dir / "a" / "fingerprint.pb").touch()
    assert model_digest(str(model_dir)) != before


def test_the_digest_of_registered_models_stays_the_same(model_dir):
    """It is a label of versions in the registry."""
    assert model_digest(str(model_dir)) == "bbebb744fd656f18e2ea562969996bf5"
