"""Random edits between runs of a table: how often `trainyard plan` foresees which tasks execute.

    python -m tools.soak.planned_edits --edits 100

Each edit changes a setting, the code, the data, the cluster, or nothing. The exit code is 0 if
every plan was right: each task that it says runs has run, those it says are cached were cached,
and those it says are skipped did not run. Tasks that depend on the verdict may do either.
"""

import argparse
import collections
import random
import sys
import tempfile
from pathlib import Path

from tests.support.processes.planned_edits import Edited, misjudged, planned_and_actual
from tests.support.processes.whole_runs import Home


def _print(value: object) -> None:
    sys.stdout.write(f"{value}\n")
    sys.stdout.flush()


def main(argv: list[str] | None = None) -> int:
    """Plan and run after each edit; print what was misjudged; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--edits", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args(argv)
    counts: collections.Counter[str] = collections.Counter()
    with tempfile.TemporaryDirectory() as scratch:
        (Path(scratch) / "data").mkdir()
        home = Home(Path(scratch) / "home", Path(scratch) / "data")
        edited = Edited(home.folder / "spent", random.Random(arguments.seed))
        with home.serving():
            for _ in range(arguments.edits):
                edit = edited.edit()
                planned, actual = planned_and_actual(home, edited)
                wrong = misjudged(planned, actual)
                counts["right" if not wrong else "wrong"] += 1
                counts.update(f"tasks planned: {task['state']}" for task in planned["tasks"])
                _print(f"{edit:<28} {wrong or 'as planned'}")
    _print(dict(counts))
    return 0 if not counts["wrong"] else 1


if __name__ == "__main__":
    sys.exit(main())
