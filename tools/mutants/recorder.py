"""Recording of the lines that a process executes, for the test that started it.

A process appends a record to the folder that TRAINYARD_RECORD_LINES names when it ends; one that is
killed leaves none.
"""

import atexit
import json
import os
from pathlib import Path
from typing import Any

import coverage

FOLDER = "TRAINYARD_RECORD_LINES"
ROOT = Path(__file__).parents[2]
SOURCE = [f"{ROOT}/{name}/*" for name in ("pipelines", "components", "trainer", "vertex_local")]
# The line that starts the recording in every process of an environment (site, ".pth" files).
SITE_HOOK = (
    f"import os; {FOLDER!r} in os.environ and __import__('tools.mutants.recorder', fromlist=['_'])"
    ".start()\n"
)


class Recorder:
    """Lines executed by this process since its start, or since it was forked."""

    def __init__(self) -> None:
        self._coverage = _measure()
        self._is_main = False
        os.register_at_fork(after_in_child=self._restart)
        atexit.register(self._end)
        self._exit, os._exit = os._exit, self._end_at_once  # type: ignore[assignment]

    def _restart(self) -> None:
        self._coverage.stop()
        self._is_main = False
        self._coverage = _measure()

    def lead(self) -> None:
        """Record one test after the other, each by `write`."""
        self._is_main = True

    def write(self, test: str, **facts: Any) -> None:
        """Append a record of a test and begin the next one."""
        self._coverage.stop()
        data = self._coverage.get_data()
        lines = {
            str(Path(file).relative_to(ROOT)): sorted(data.lines(file) or ())
            for file in data.measured_files()
        }
        path = Path(os.environ[FOLDER], f"{os.getpid()}.jsonl")
        with path.open("a", encoding="utf-8") as records:
            records.write(json.dumps({"test": test, "lines": lines, **facts}) + "\n")
        self._coverage = _measure()

    def _end(self) -> None:
        test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" (")[0]
        if not self._is_main and test and FOLDER in os.environ:
            self.write(test)

    def _end_at_once(self, code: int) -> None:
        try:
            self._end()
        finally:
            self._exit(code)


def _measure() -> coverage.Coverage:
    measured = coverage.Coverage(
        data_file=None, config_file=False, include=SOURCE, omit=["*/tests/*"], messages=False
    )
    measured.set_option("run:disable_warnings", ["no-data-collected"])
    measured.start()
    return measured


RECORDERS: list[Recorder] = []


def start() -> None:
    """Record the lines of this process, if that has not begun."""
    if not RECORDERS:
        RECORDERS.append(Recorder())
