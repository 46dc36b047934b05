"""Step that finds the promoted version of a model for Google's operators."""

from types import SimpleNamespace

import pytest

from components.model_version import champion as module
from components.model_version.champion import Champion
from components.model_version.component import find_version

pytestmark = pytest.mark.fast


def test_the_promoted_version_is_found(monkeypatch):
    monkeypatch.setenv("VERTEX_EMULATOR_HOST", "127.0.0.1:1")  # not asked
    known = {"churn": Champion(version="projects/p/locations/l/models/5@2")}
    monkeypatch.setattr(module, "find_champion", lambda _, name: known.get(name, Champion()))
    model = SimpleNamespace(metadata={})
    given = {"project": "p", "location": "us-central1", "model": model}

    name = find_version.python_func(model_name="churn", **given)

    assert name == model.metadata["resourceName"] == known["churn"].version
    with pytest.raises(SystemExit, match="no promoted version"):
        find_version.python_func(model_name="other", **given)
