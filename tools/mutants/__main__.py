"""Command line of the mutants; `python -m tools.mutants --help`."""

import argparse
import json
import os
import random
import re
import signal
import subprocess
import sys
import sysconfig
import time
from collections import Counter, defaultdict
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tools.mutants import __doc__ as description
from tools.mutants.mistakes import Mistake, mistakes_in
from tools.mutants.recorder import FOLDER, ROOT, SITE_HOOK

PACKAGES = ("pipelines", "components", "trainer", "vertex_local")
MUTANTS = Path(__file__).with_name("mutants.jsonl")
RECORDS = ROOT / "build" / "mutants"
# Of the tests that execute a line, the quick ones first: sums of their seconds, a batch each.
BATCHES = (10.0, 30.0, 60.0)
MAX_TESTS = 60
TIMEOUT_SECONDS = 240
NOTHING_RAN = (4, 5)  # exit codes of pytest: a test is not there, or was left out


@dataclass(kw_only=True)
class Mutant:
    """A mistake in a file: its text `before` there is replaced; `fate` is how trying it ended."""

    file: str
    function: str
    kind: str
    line: int
    start: int
    before: str
    after: str
    fate: str = ""
    test: str = ""


def main() -> None:
    """Run a command."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    command = commands.add_parser("record", help="run tests and record the lines of each")
    command.add_argument("pytest", nargs="*", help="arguments of pytest, after --")
    command.set_defaults(run=lambda options: record(options.pytest))
    command = commands.add_parser("choose", help="choose mistakes and write them to mutants.jsonl")
    command.add_argument("--count", type=int, default=320)
    command.add_argument("--seed", type=int, default=52)
    command.set_defaults(run=lambda options: choose(options.count, seed=options.seed))
    command = commands.add_parser("try", help="try the mutants that no test has caught")
    command.add_argument("--part", default="1/1", help="2/3 tries the second third")
    command.add_argument("--again", action="store_true", help="those that were caught, once more")
    command.set_defaults(run=lambda options: try_all(options.part, again=options.again))
    command = commands.add_parser("table", help="print what was caught, by package")
    command.set_defaults(run=lambda options: table())
    options = parser.parse_args()
    sys.exit(options.run(options))


def record(arguments: list[str]) -> int:
    """Run the tests with the recorder in each of their processes."""
    RECORDS.mkdir(parents=True, exist_ok=True)
    hook = Path(sysconfig.get_path("purelib"), "zz_record_lines.pth")
    hook.write_text(SITE_HOOK)
    try:
        words = [sys.executable, "-m", "pytest", "-p", "tools.mutants.plugin", *arguments]
        environ = {**os.environ, FOLDER: str(RECORDS)}
        return subprocess.run(words, cwd=ROOT, env=environ, check=False).returncode
    finally:
        hook.unlink()


def choose(count: int, *, seed: int) -> None:
    """Choose mistakes: of each package by its size, and of each kind alike."""
    names = subprocess.run(
        ["git", "ls-files", *PACKAGES], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()
    mutants = defaultdict[str, list[Mutant]](list)
    for name in names:
        if name.endswith(".py") and "/tests/" not in name:
            source = (ROOT / name).read_bytes()
            for mistake in mistakes_in(source.decode()):
                mutant = Mutant(
                    file=name,
                    function=mistake.function,
                    kind=mistake.kind,
                    line=mistake.line,
                    start=mistake.start,
                    before=source[mistake.start : mistake.end].decode(),
                    after=mistake.text,
                )
                mutants[package_of(name)].append(mutant)
    total = sum(map(len, mutants.values()))
    dice = random.Random(seed)
    chosen: list[Mutant] = []
    for candidates in mutants.values():
        by_kind = defaultdict[str, list[Mutant]](list)
        for mutant in candidates:
            by_kind[mutant.kind].append(mutant)
        for number in range(max(1, round(count * len(candidates) / total))):
            kind = sorted(by_kind)[number % len(by_kind)]
            chosen.append(dice.choice(by_kind[kind]))
    _write(sorted({(m.file, m.start, m.after): m for m in chosen}.values(), key=_position))


def _position(mutant: Mutant) -> tuple[str, int]:
    return mutant.file, mutant.start


def package_of(name: str) -> str:
    """Return the package and its folder, such as `trainer/training`."""
    return "/".join(Path(name).parent.parts[:2])


def try_all(part: str, *, again: bool) -> None:
    """Try mutants in this checkout, which must be clean, and write each one's fate."""
    number, parts = map(int, part.split("/"))
    tests_of = read_records()
    mutants = read_mutants()
    for position, mutant in enumerate(mutants):
        if position % parts != number - 1 or (mutant.fate == "caught") != again:
            continue
        started = time.monotonic()
        mutant.fate, mutant.test = try_mutant(mutant, tests_of)
        seconds = time.monotonic() - started
        line = f"{mutant.fate:9} {seconds:4.0f} s {mutant.file}:{mutant.line} {mutant.test}"
        print(line, flush=True)
        RECORDS.mkdir(parents=True, exist_ok=True)
        with (RECORDS / f"fates-{number}.jsonl").open("a") as fates:
            fates.write(json.dumps(asdict(mutant)) + "\n")


def try_mutant(mutant: Mutant, tests_of: "Records") -> tuple[str, str]:
    """Return `caught` with the test, `survived`, `not run` (by no test) or `gone` (its code is)."""
    path = ROOT / mutant.file
    mistake = find_again(mutant, path.read_text(encoding="utf-8")) if path.exists() else None
    if not mistake:
        return "gone", ""
    tests = tests_of.executing(mutant.file, mistake.line if mutant.function else None)
    before = mutant.test.partition("[")[0]  # it caught the mutant before
    beside = tests_beside(mutant.file)
    tried = [[before] * is_there(before), *batches(tests, tests_of.seconds), *beside]
    if not any(tried):
        return "not run", ""
    source = path.read_bytes()
    changed = mutant.after.encode() + source[mistake.end :]
    path.write_bytes(source[: mistake.start] + changed)
    try:
        for batch in filter(None, tried):
            if failed := first_failure(batch):
                return "caught", failed
    finally:
        path.write_bytes(source)
    return "survived", ""


def find_again(mutant: Mutant, source: str) -> Mistake | None:
    """Return a mutant's mistake in a file that has changed, maybe: of its function, near by."""
    text = source.encode()
    same = [
        mistake
        for mistake in mistakes_in(source)
        if (mistake.kind, mistake.text) == (mutant.kind, mutant.after)
        and text[mistake.start : mistake.end].decode() == mutant.before
    ]

    def distance(mistake: Mistake) -> tuple[bool, int]:
        return mistake.function != mutant.function, abs(mistake.start - mutant.start)

    return min(same, key=distance, default=None)


def is_there(test: str) -> bool:
    """Return whether a test function is in its file."""
    name, _, function = test.rpartition("::")
    path = ROOT / name
    return path.is_file() and f"def {function}(" in path.read_text(encoding="utf-8")


def tests_beside(file: str) -> list[list[str]]:
    """Return the test file of a source file and those of its folder.

    A process that starts before a test, such as a service that tests share, records no lines for
    it.
    """
    path = Path(file)
    is_local = path.parts[0] == "vertex_local"
    folder = Path("vertex_local/tests", *path.parts[1:-1]) if is_local else "tests" / path.parent
    while not (found := sorted((ROOT / folder).glob("test_*.py"))):
        folder = folder.parent
    files = [str(path.relative_to(ROOT)) for path in found]
    own = [name for name in files if Path(name).stem == f"test_{path.stem}"]
    return [own, [name for name in files if name not in own]]


def batches(tests: list[str], seconds: dict[str, float]) -> list[list[str]]:
    """Deal tests into batches: those of the mutant's folder first, and the quick ones first."""
    dealt: list[list[str]] = [[]]
    budget = BATCHES[0]
    for test in tests:
        is_full = len(dealt[-1]) >= MAX_TESTS or (dealt[-1] and seconds[test] > budget)
        if is_full:
            if len(dealt) == len(BATCHES):
                break
            budget = BATCHES[len(dealt)]
            dealt.append([])
        dealt[-1].append(test)
        budget -= seconds[test]
    return dealt


def first_failure(tests: list[str]) -> str:
    """Return the test that fails, or the words that pytest ended with; "" if all pass."""
    words = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
    # A session of its own, whose processes end with it.
    process = subprocess.Popen(
        words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
    )
    try:
        output, _ = process.communicate(timeout=TIMEOUT_SECONDS)
    except subprocess.TimeoutExpired:
        return "timeout"
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    if process.returncode in (0, *NOTHING_RAN):
        return ""
    lines = output.decode(errors="replace").splitlines()
    found = (re.match(r"(?:FAILED|ERROR) ((?:tests|vertex_local)/.*?)(?: - |$)", x) for x in lines)
    return next((match[1] for match in found if match), f"exit code {process.returncode}")


class Records:
    """Which tests execute which lines, and their seconds; only of tests that passed."""

    def __init__(self, folder: Path) -> None:
        self.seconds: dict[str, float] = {}
        self._tests: dict[tuple[str, int], set[str]] = defaultdict(set)
        self._lines: dict[str, set[int]] = defaultdict(set)
        for path in sorted(folder.glob("[0-9]*.jsonl")):
            for line in path.read_text(encoding="utf-8").splitlines():
                entry = json.loads(line)
                if entry.get("outcome") == "passed":
                    self.seconds[entry["test"]] = entry["seconds"]
                for file, numbers in entry["lines"].items():
                    self._lines[file].update(numbers)
                    for number in numbers:
                        self._tests[file, number].add(entry["test"])

    def executing(self, file: str, line: int | None) -> list[str]:
        """Return the tests that execute a line, or any of the file: of its folder first.

        Only the first test of a process executes what an import does.
        """
        lines = [line] if line else self._lines[file]
        tests = set[str]().union(*(self._tests.get((file, at), set()) for at in lines))
        folder = Path(file).parts

        def order(test: str) -> tuple[int, float]:
            parts = Path(test.partition("::")[0]).parts
            depth = sum(part in parts for part in folder[:-1])
            return -depth, self.seconds[test]

        return sorted(tests & self.seconds.keys(), key=order)


def read_records() -> Records:
    """Return what `record` has written."""
    return Records(RECORDS)


def read_mutants() -> list[Mutant]:
    """Return the mutants with the fates that `try` has written since."""
    lines = MUTANTS.read_text(encoding="utf-8").splitlines()
    mutants = {_key(mutant): mutant for mutant in (Mutant(**json.loads(line)) for line in lines)}
    for path in RECORDS.glob("fates-*.jsonl"):
        for line in path.read_text(encoding="utf-8").splitlines():
            tried = Mutant(**json.loads(line))
            if mutant := mutants.get(_key(tried)):
                mutant.fate, mutant.test = tried.fate, tried.test
    return list(mutants.values())


def _key(mutant: Mutant) -> tuple[Any, ...]:
    return mutant.file, mutant.start, mutant.after


def _write(mutants: list[Mutant]) -> None:
    text = "".join(json.dumps(asdict(mutant), ensure_ascii=False) + "\n" for mutant in mutants)
    MUTANTS.write_text(text, encoding="utf-8")


def table() -> None:
    """Write the fates into mutants.jsonl and print them by package."""
    mutants = read_mutants()
    _write(mutants)
    counts = defaultdict[str, Counter[str]](Counter)
    for mutant in mutants:
        for name in (package_of(mutant.file), "all"):
            counts[name][mutant.fate or "not tried"] += 1
    fates = ("caught", "survived", "gone", "not run", "not tried")
    print(f"{'package':36}", *(f"{fate:>9}" for fate in fates))
    for name in sorted(counts, key=lambda name: (name == "all", name)):
        print(f"{name:36}", *(f"{counts[name][fate]:9}" for fate in fates))


if __name__ == "__main__":
    main()
