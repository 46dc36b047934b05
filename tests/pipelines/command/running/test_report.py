"""`trainyard report`: the page opens in the desktop's browser."""

import shutil
import subprocess
import sys

import pytest

from pipelines.command.running.report import open_page


@pytest.mark.parametrize(
    ("platform", "display", "program"),
    [("darwin", "", "open"), ("linux", ":0", "xdg-open"), ("linux", "", None)],
    ids=["mac", "linux", "no display"],
)
def test_the_page_opens_by_the_program_of_the_desktop(
    monkeypatch, tmp_path, platform, display, program
):
    started = []
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setattr(shutil, "which", lambda name: f"/bin/{name}")
    monkeypatch.setattr(subprocess, "Popen", lambda command, **_: started.append(command))
    monkeypatch.setenv("DISPLAY", display)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    page = tmp_path / "report.html"

    open_page(page)

    assert started == ([[f"/bin/{program}", str(page)]] if program else [])
