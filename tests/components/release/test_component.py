"""What a run does with a version that is registered already."""

from types import SimpleNamespace

import pytest

from components.model_version import champion, recorded
from components.release import release
from components.release.component import release_model
from components.shared.text import json_object
from components.shared.vertex import api

pytestmark = pytest.mark.fast

VERSIONS = "projects/p/locations/l/models/taxi@"


@pytest.mark.parametrize(
    ("default", "compared", "is_promoted"),
    [("2", "2", True), ("3", "3", False), ("2", "1", False)],
    ids=["compared with the default", "the default itself", "another default since"],
)
def test_a_known_version_is_promoted_only_over_the_default_it_was_compared_with(
    tmp_path, monkeypatch, default, compared, is_promoted
):
    done = []
    of_default = SimpleNamespace(version=f"{VERSIONS}{default}")
    monkeypatch.setattr(api, "connect", lambda *_: None)
    monkeypatch.setattr(champion, "default_champion", lambda *_: of_default)
    monkeypatch.setattr(json_object, "read_object", lambda path, *names: dict.fromkeys(names))
    monkeypatch.setattr(recorded, "record_evaluation", lambda *_, **__: None)
    for name in ("promote_known", "serve_promoted"):
        monkeypatch.setattr(release, name, lambda *_, name=name, **__: done.append(name))
    file = SimpleNamespace(path=str(tmp_path / "file"))
    files = dict.fromkeys(("model", "examples", "golden", "metrics", "table", "evaluation"), file)

    version, promoted = release_model.python_func(
        project="p",
        location="l",
        run="r",
        version=f"{VERSIONS}3",
        is_known=True,
        endpoint_name="taxi",
        keep_endpoint=False,
        thresholds="",
        gate="{}",
        champion_version=f"{VERSIONS}{compared}",
        reasons="auc is better",
        **files,
    )

    assert done == ["promote_known" if is_promoted else "serve_promoted"]
    assert (version, promoted) == (f"{VERSIONS}3", f"{VERSIONS}3" * is_promoted)
