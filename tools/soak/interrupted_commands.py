"""Commands that are interrupted at random moments, beside scheduled runs, or given twice at once.

    python -m tools.soak.interrupted_commands --rounds 10

`plan`, `step`, `tune`, `models approve` and `models reject` on few images. Each is given to its
end, interrupted by a signal as often as asked, given twice at the same time, and given while a run
of a schedule is active. The exit code is 0 if each time no traceback was printed, the next command
succeeded, no run or job was unfinished soon after, one version was the default, was not rejected
and had all traffic, no decision was recorded twice, and no process or temporary folder was left.
"""

import argparse
import contextlib
import json
import random
import re
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import yaml

from components.model_version.registry import DEFAULT, list_versions
from components.shared.vertex.api import VertexApi, connect
from components.shared.vertex.labels import REJECTED, STATE_LABEL
from pipelines.exit_codes import INTERRUPTED, OK
from tests.conftest import write_mnist
from tests.support.processes.whole_runs import RUN_TIMEOUT_SECONDS, Home
from tools.soak.bad_day import _environment
from tools.soak.random_kills import _print, _unfinished, _wrongly_served

COMMANDS = ("plan", "step", "tune", "approve", "reject")
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)
TINY = {
    **{"trust_files": True, "train.epochs": 1, "train.batch_size": 8, "keep_endpoint": True},
    **{"thresholds.accuracy": 0, "gate.baseline": "none", "gate.min_gain": -2},
}
SETTLE_SECONDS = 60
RANDOM_NAME = re.compile(r"[a-z0-9_]{8}$")


class Commands:
    """A service with three versions of a model, and commands to give to it."""

    def __init__(self, home: Home, api: VertexApi, *, seed: int) -> None:
        self.home = home
        self.api = api
        self.chance = random.Random(seed)
        self.number = 0
        self.seconds: dict[str, float] = {}
        self.at_first: Counter[str] = Counter()
        self.run = ""
        self._seed = 0

    def start_night(self, **parameters: object) -> "Night":
        """Start a run of a schedule whose model is another one."""
        self._seed += 1
        folder = self.home.folder / "schedules"
        folder.mkdir(exist_ok=True)
        values = {**TINY, "train.seed": self._seed, **parameters}
        file = {"workload": "mnist", "cron": "0 3 * * *", "paused": True, "parameters": values}
        (folder / "nightly.yaml").write_text(yaml.safe_dump(file))
        data = ["--data-dir", str(self.home.folder / "data")]
        self.home.call("schedule", "apply", str(folder), *data)
        return Night(self.home)

    def words(self, name: str) -> list[str]:
        """Return a command; a decision is about a version that is not the default."""
        self.number += 1
        data = ["--data-dir", str(self.home.folder / "data")]
        tiny = [f"{key}={json.dumps(value).strip(chr(34))}" for key, value in TINY.items()]
        tiny = [word for setting in tiny for word in ("--set", setting)]
        rates = ["--set", "train.learning_rate=0.001,0.01", "--trials", "2", "--parallel", "2"]
        version = f"mnist@{self.chance.choice(self._others())}"
        return {
            "plan": ["plan", "mnist", *data, *tiny, "--set", f"train.seed={self.number}"],
            "step": ["step", self.run, "evaluate", "--set", "thresholds.accuracy=0.01"],
            "tune": ["tune", "mnist", *data, *tiny[:6], *rates, "--name", f"tune-{self.number}"],
            "approve": ["models", "approve", version, "--uncompared", *self._reason()],
            "reject": ["models", "reject", version, *self._reason()],
        }[name]

    def problems(self) -> list[str]:
        """Return what is not as it should be once all has ended."""
        problems = _unfinished(self.api) or _wrongly_served(self.api)
        versions = list_versions(self.api, self._model())
        for version in versions:
            number, state = version["versionId"], version["labels"].get(STATE_LABEL)
            if DEFAULT in version["versionAliases"] and state == REJECTED:
                problems.append(f"the default, {number}, is rejected")
        lines = [line for one in versions for line in one["versionDescription"].splitlines()]
        reasons = [line.rpartition("] ")[2] for line in lines if "] decision-" in line]
        problems += [
            f"{reason} is recorded twice" for reason in {*reasons} if reasons.count(reason) > 1
        ]
        return [*problems, *self._left()]

    def present(self) -> Counter[str]:
        """Count the processes by module, and the temporary files."""
        modules = [" ".join(process.cmdline()[1:3]) for process in self.home.processes()]
        service = (self.home.state / "vertex" / "tmp").readlink()
        temporary = [*self.home.temp.iterdir(), *service.iterdir()]
        return Counter([*modules, *(RANDOM_NAME.sub("*", path.name) for path in temporary)])

    def _left(self) -> list[str]:
        """Return what was not there in the beginning, with the same server of predictions."""
        deadline = time.monotonic() + SETTLE_SECONDS
        while more := self.present() - self.at_first:
            if time.monotonic() > deadline:
                return [f"left {number} {name}" for name, number in more.items()]
            time.sleep(0.5)
        return []

    def _reason(self) -> list[str]:
        return ["--reason", f"decision-{self.number}"]

    def _others(self) -> list[str]:
        versions = list_versions(self.api, self._model())
        return [one["versionId"] for one in versions if DEFAULT not in one["versionAliases"]]

    def _model(self) -> str:
        [model] = self.api.list_resources("models")
        return str(model["name"]).partition("@")[0]


class Night:
    """A run of the schedule."""

    def __init__(self, home: Home) -> None:
        self._run = home.start("schedule", "run-now", "nightly", "--wait")

    def problems(self) -> list[str]:
        """Wait for the end; return what is wrong with it."""
        output, _ = self._run.communicate(timeout=RUN_TIMEOUT_SECONDS)
        is_stopped = "not promoted" in output or "which would undo" in output
        return [] if self._run.returncode == OK or is_stopped else [f"the run: {output[-800:]}"]


def ended(commands: Commands, name: str, *, signals: bool) -> tuple[str, float, list[str]]:
    """Give a command, interrupted or not; return what was done, its seconds, and problems."""
    began = time.monotonic()
    process = commands.home.start(*commands.words(name))
    done = "to its end"
    if signals:
        time.sleep(commands.chance.uniform(0, commands.seconds[name]))
        number = commands.chance.choice(SIGNALS)
        process.send_signal(number)
        done = f"{number.name} after {time.monotonic() - began:.1f} s"
    output, _ = process.communicate(timeout=RUN_TIMEOUT_SECONDS)
    ends = (INTERRUPTED, *(-number for number in SIGNALS))  # a signal's number: before it began
    allowed = (OK, *ends) if signals else (OK,)
    problems = (
        [] if process.returncode in allowed else [f"exit {process.returncode}: {output[-600:]}"]
    )
    if "Traceback" in output and process.returncode != -signal.SIGINT:
        problems.append(f"a traceback: {output[-1500:]}")
    return done, time.monotonic() - began, problems


def twice(commands: Commands, name: str) -> list[str]:
    """Give the same command twice at the same time; the second decision may be refused."""
    words = commands.words(name)
    second = [*words[:-1], f"{words[-1]}-again"] if "--reason" in words else words
    processes = [commands.home.start(*words) for words in (words, second)]
    outputs = [process.communicate(timeout=RUN_TIMEOUT_SECONDS)[0] for process in processes]
    codes = [process.returncode for process in processes]
    problems = [f"a traceback: {output[-1500:]}" for output in outputs if "Traceback" in output]
    if OK not in codes:
        problems.append(f"none succeeded: {outputs}")
    for code, output in zip(codes, outputs, strict=True):
        if code and len(output.strip().splitlines()) > 1:
            problems.append(f"exit {code} in more than a line: {output[-600:]}")
    return problems


@contextlib.contextmanager
def prepared(folder: Path, *, seed: int) -> Iterator[Commands]:
    """A service with a version that serves and two that wait."""
    home = Home(folder / "home", write_mnist(folder / "mnist", num_train=64))
    with home.serving(), _environment(home.url):
        commands = Commands(home, connect("local", "us-central1"), seed=seed)
        for approval in ("no", "required", "required"):
            settings = {"release.approval": approval} if approval == "required" else {}
            problems = commands.start_night(**settings).problems()
            assert not problems, problems
        commands.at_first, commands.run = commands.present(), home.summary()["run"]
        yield commands


def main() -> int:
    """Give the commands; print one JSON object for each, and the counts in the end."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=10, help="default: %(default)s")
    parser.add_argument("--seed", type=int, default=0, help="default: %(default)s")
    parser.add_argument("--only", choices=COMMANDS, nargs="+", default=COMMANDS)
    arguments = parser.parse_args()
    passed = dict.fromkeys(arguments.only, 0)
    tried = dict(passed)
    with (
        tempfile.TemporaryDirectory(prefix="interrupted-") as folder,
        prepared(Path(folder), seed=arguments.seed) as commands,
    ):

        def note(name: str, done: str, problems: list[str]) -> None:
            tried[name] += 1
            passed[name] += not problems
            _print(command=name, done=done, problems=problems)

        for name in arguments.only:
            done, commands.seconds[name], problems = ended(commands, name, signals=False)
            note(name, f"{done}, {commands.seconds[name]:.1f} s", problems + commands.problems())
            for _ in range(arguments.rounds):
                done, _, problems = ended(commands, name, signals=True)
                # What a killed approval has deployed, without traffic, is left to the next one.
                problems += [] if "SIGKILL" in done else commands.problems()
                problems += ended(commands, name, signals=False)[2] + commands.problems()
                note(name, done, problems)
            for _ in range(2):
                note(name, "twice at once", twice(commands, name) + commands.problems())
            for _ in range(2):
                night = commands.start_night()
                time.sleep(commands.chance.uniform(0, 10))
                problems = ended(commands, name, signals=False)[2] + night.problems()
                note(name, "beside a run", problems + commands.problems())
        _print(tried=tried, passed=passed)
    return 0 if tried == passed else 1


if __name__ == "__main__":
    sys.exit(main())
