"""Random edits between runs of a table: how often `trainyard plan` foresees which tasks execute.

    python -m tools.soak.planned_edits --edits 100

Each edit changes a setting, the code, the data, the cluster, or nothing. The exit code is 0 if
every plan was right: each task that it says runs has run, those it says are cached were cached,
and those it says are skipped did not run. Tasks that depend on the verdict may do either.
"""

import argparse
import collections
import json
import random
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.support.processes.whole_runs import RUN_TIMEOUT_SECONDS, Home
from trainer import Json

WORKLOAD = '''\
"""What customers spend."""

from trainyard import Category, Number, Regression, Table, combine


def model(inputs, *, units=4):
    import keras

    return keras.Model(inputs, keras.layers.Dense(1)(keras.layers.Dense(units)(combine(inputs))))


workload = Table(
    features=[Number("age"), Category("plan")], label=Regression("spent"), key="number", model=model
)
'''
RUN_FILE = """\
prepare: {files: [rows.csv]}
train: {epochs: 1}
thresholds: {rmse: {at_most: 1000}}
gate: {baseline: none, folds: 0}
"""
HEADER = "number,age,plan,spent"
SETTINGS = {
    "train.epochs": (1, 2),
    "train.learning_rate": (0.001, 0.01),
    "train.seed": (1, 2),
    "model.units": (2, 4),
    "thresholds.rmse": ("1", "1000"),
    "gate.min_gain": (-5, 0),
    "max_examples": (0, 200),
    "cluster.timeout_seconds": (600, 700),
    "keep_endpoint": ("false", "true"),
}


class Edited:
    """A folder with a table, and the settings of its runs, which random edits change."""

    def __init__(self, folder: Path, dice: random.Random) -> None:
        self.folder, self._dice = folder, dice
        self.settings: dict[str, object] = {}
        folder.mkdir()
        (folder / "workload.py").write_text(WORKLOAD)
        (folder / "run.yaml").write_text(RUN_FILE)
        rows = [self._row(number) for number in range(300)]
        (folder / "rows.csv").write_text("\n".join([HEADER, *rows]) + "\n")

    def edit(self) -> str:
        """Make one edit; return it in words."""
        edits: tuple[Callable[[], str], ...] = (
            self._setting,
            self._setting,
            self.code,
            self.data,
            lambda: "nothing",
        )
        return self._dice.choice(edits)()

    @property
    def flags(self) -> list[str]:
        """The settings as arguments of a command."""
        return [f for name, value in self.settings.items() for f in ("--set", f"{name}={value}")]

    def _row(self, number: int) -> str:
        age, plan = self._dice.randint(18, 90), self._dice.choice(("basic", "plus"))
        return f"{number},{age},{plan},{age * 2 + 50 * (plan == 'plus')}"

    def _setting(self) -> str:
        name = self._dice.choice(sorted(SETTINGS))
        self.settings[name] = self._dice.choice(SETTINGS[name])
        return f"{name}={self.settings[name]}"

    def code(self) -> str:
        """Change a comment of the workload."""
        number = self._dice.randint(1, 3)
        (self.folder / "workload.py").write_text(f"{WORKLOAD}# {number}\n")
        return f"code {number}"

    def data(self) -> str:
        """Add a row, or remove one."""
        lines = (self.folder / "rows.csv").read_text().splitlines()
        if len(lines) > 300 and self._dice.random() < 0.5:
            lines.pop()
        else:
            lines.append(self._row(len(lines)))
        (self.folder / "rows.csv").write_text("\n".join(lines) + "\n")
        return f"{len(lines) - 1} rows"


def planned_and_actual(home: Home, edited: Edited) -> tuple[Json, dict[str, str]]:
    """Plan and run; return the plan, and the actual state of each task."""
    command = (str(edited.folder), *edited.flags)
    planned = json.loads(home.call("plan", *command, "--json"))
    home.start("run", *command).communicate(RUN_TIMEOUT_SECONDS)
    [newest] = json.loads(home.call("runs", "list", "--limit", "1", "--json"))
    return planned, {task["name"]: _actual(task) for task in newest["tasks"]}


def _actual(task: Json) -> str:
    if task["cached"]:
        return "cached"
    return "skipped" if task["state"] == "NOT_RUN" else "runs"


def misjudged(planned: Json, actual: dict[str, str]) -> dict[str, str]:
    """Return the tasks that did something else than was planned, with both states."""
    return {
        task["name"]: f"planned {task['state']}, actual {actual.get(task['name'])}"
        for task in planned["tasks"]
        if task["state"] not in ("depends", actual.get(task["name"]))
    }


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
