"""Three weeks of real taxi days: whole runs of a schedule, on a clock whose days take seconds.

    python -m tools.soak.three_weeks --nights 21

Each night trains on the thirty days before it, is compared with the promoted version's data, and
promotes its model. Two runs at the end have the last night's date again: the first one, with the
cache, must take its examples and its training from there, and the second one, with a trigger, must
find nothing new. A JSON object for each run is printed; the exit code is 0 if all was right.
"""

import argparse
import datetime
import json
import os
import sys
import tempfile
import time
from pathlib import Path

import yaml

from components.run_result.summary import Summary
from components.shared.vertex.api import VertexApi, connect
from pipelines.runs.facts import newest_runs
from tests.support.processes.everything import EVERYTHING
from tests.support.processes.whole_runs import PRELOAD
from tools.soak.bad_day import _environment, _print
from tools.soak.taxi_days import write_taxi_days
from vertex_local.tests.support.forks import forks_with
from vertex_local.tests.support.service import running_service

FIRST_DAY, FIRST_NIGHT, LAST_DAY = "2015-05-01", datetime.date(2015, 6, 1), "2015-07-31"
CLOCK_SPEED = 17280  # a day takes five seconds
NIGHT_SECONDS = 120
POLL_SECONDS = 1.0
COMMAND_SECONDS = 300
NAME = "taxi-nightly"


def write_schedule(folder: Path, *, num_nights: int) -> dict[str, object]:
    """Write the days, and a schedule whose first night reads May 2015; return its settings."""
    days, schedules = folder / "days", folder / "schedules"
    days.mkdir()
    schedules.mkdir()
    write_taxi_days(days, first=FIRST_DAY, last=LAST_DAY)
    num_back = (datetime.datetime.now(datetime.UTC).date() - FIRST_NIGHT).days + 2
    settings: dict[str, object] = {
        "prepare.files": [f"{days}/{{run_date-{num_back}d:%Y-%m-%d}}.csv"],
        "prepare.window": "30d",
        "prepare.baseline": "previous",
        # Enough for a model that is better than a constant one, which the first must be.
        "train.epochs": 30,
        "gate.baseline": "constant",
        "thresholds.auc": 0,
        "thresholds.accuracy": 0,
    }
    schedule = {
        "workload": "taxi",
        "cron": "0 12 * * *",
        "max_runs": num_nights,
        "queue": True,
        "parameters": settings,
    }
    (schedules / f"{NAME}.yaml").write_text(yaml.safe_dump(schedule))
    return settings


def trainyard(folder: Path, *words: str) -> str:
    """Run a command; return its output.

    Raises:
        RuntimeError: it fails.
    """
    log = folder / "command.log"
    process = forks_with(*EVERYTHING).start(["python", "-m", "pipelines.cli", *words], log_path=log)
    output, _ = process.communicate(COMMAND_SECONDS)
    if process.returncode:
        raise RuntimeError(f"trainyard {' '.join(words)}: {process.returncode}: {output[-3000:]}")
    return str(output)


def await_nights(api: VertexApi, *, num_nights: int) -> list[Summary]:
    """Wait until the schedule's runs have ended; return them, the oldest first."""
    deadline = time.monotonic() + num_nights * NIGHT_SECONDS
    while time.monotonic() < deadline:
        [schedule] = api.list_resources("schedules")
        runs = newest_runs(api, limit=0, schedule=NAME)
        if schedule["state"] == "COMPLETED" and all(run.is_final for run in runs):
            return sorted(runs, key=lambda run: run.run_time)
        time.sleep(POLL_SECONDS)
    raise TimeoutError(f"the nights have not ended after {num_nights * NIGHT_SECONDS} s")


def again(folder: Path, api: VertexApi, settings: dict[str, object], *more: str) -> Summary:
    """Run once more with settings; return the run."""
    texts = [f"{k}={v if isinstance(v, str) else json.dumps(v)}" for k, v in settings.items()]
    words = [word for text in (*texts, *more) for word in ("--set", text)]
    trainyard(folder, "run", "taxi", "--keep-endpoint", *words)
    [newest] = newest_runs(api, limit=1)
    return newest


def problems_of(nights: list[Summary], same: Summary, ended: Summary, *, count: int) -> list[str]:
    """Return what is wrong, nothing if all is as it should be."""
    cached = {task["name"] for task in same.tasks if task["cached"]}
    checks = {
        "a night has not promoted a model": {one.outcome for one in nights} == {"promoted"},
        "nights are missing": len(nights) == count,
        "two nights have the same data": len({one.data_digest for one in nights}) == count,
        "two nights have the same date": len({one.run_time[:10] for one in nights}) == count,
        "the last night's data is not cached": {"prepare-examples", "train"} <= cached,
        "the last night's data is another one": same.data_digest == nights[-1].data_digest,
        "the trigger has not ended the run": ended.outcome == "nothing-new",
    }
    return [problem for problem, is_right in checks.items() if not is_right]


def main() -> int:
    """Run the nights, print one JSON object a run and one in the end."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--nights", type=int, default=21, help="default: %(default)s")
    count = parser.parse_args().nights
    with tempfile.TemporaryDirectory(prefix="three-weeks-") as name:
        folder = Path(name)
        os.environ["TRAINYARD_DIR"] = str(folder / "state")
        settings = write_schedule(folder, num_nights=count)
        trainyard(folder, "schedule", "apply", str(folder / "schedules"))
        options = ["--clock-speed", str(CLOCK_SPEED), "--preload", PRELOAD]
        service = running_service(folder / "state" / "vertex", *options)
        with service as running, _environment(running.url):
            api = connect("local", "us-central1")
            nights = await_nights(api, num_nights=count)
            date = f"prepare.run_date={nights[-1].run_time[:10]}"
            same = again(folder, api, settings, date)
            ended = again(folder, api, settings, date, "trigger.new_files=true")
    for one in (*nights, same, ended):
        _print(
            run=one.run,
            date=one.run_time[:10],
            outcome=one.outcome,
            seconds=one.seconds,
            drift=list(one.drift),
            news=list(one.news),
        )
    problems = problems_of(nights, same, ended, count=count)
    _print(nights=len(nights), problems=problems)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
