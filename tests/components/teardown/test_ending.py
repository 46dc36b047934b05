"""The end of a run with a fake API and webhook."""

import json
from types import SimpleNamespace

import pytest

from components.teardown import ending

pytestmark = pytest.mark.fast

API = SimpleNamespace(
    parent="projects/p/locations/l", find=lambda name: None, list_resources=lambda *_, **__: []
)


def end(folder, *, on_failure_url: str = "") -> dict:
    """Return the metadata of a failed run's end."""
    return ending.end_run(
        API,
        run="run-1",
        keep_endpoint=False,
        state="FAILED",
        error="it was too slow",
        summary_path=str(folder / "run-1" / "summary.json"),
        on_failure_url=on_failure_url,
    )


@pytest.mark.parametrize("failure", ["", "no connection"], ids=["reached", "not reached"])
def test_a_defect_of_the_report_loses_neither_the_webhook_nor_the_summary(
    failure, tmp_path, monkeypatch, caplog
):
    posted = []

    def post(url, message):
        posted.append(json.loads(message)["error"])
        return failure

    def broken(*_, **__):
        raise KeyError("history")

    monkeypatch.setattr(ending, "post_summary", post)
    monkeypatch.setattr(ending, "write_report", broken)

    metadata = end(tmp_path, on_failure_url="http://127.0.0.1/hook")

    assert posted == ["it was too slow"]
    assert metadata["warnings"] == failure
    summary = json.loads((tmp_path / "run-1" / "summary.json").read_text())
    assert summary["warnings"] == ([failure] if failure else [])
    assert "the report of run-1 cannot be written" in caplog.text
    assert "KeyError: 'history'" in caplog.text


def test_the_unfinished_examples_of_a_killed_step_are_removed(tmp_path):
    folder = tmp_path / "run-1" / "prepare-examples"
    for name in ("examples", ".examples.ab12cd34.partial"):
        (folder / name).mkdir(parents=True)
    end(tmp_path)
    assert [path.name for path in folder.iterdir()] == ["examples"]
