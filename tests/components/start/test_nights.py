"""Eight nights of real taxi days, one after the other, with the trainings left out.

The data steps are called as in a schedule's runs. To be quick, the examples are prepared in the
first night and a week later. `tools/soak/three_weeks.py` has the whole runs.
"""

import datetime
import json
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from components.evaluate.step import write_data_facts
from components.model_version.champion import Champion
from components.prepare_examples.fingerprint import check_unchanged
from components.prepare_examples.prepare import prepare
from components.prepare_examples.settings.options import PrepareOptions
from components.start.comparison import Comparison, compare
from components.start.step import Start
from components.start.trigger import NOTHING_NEW
from tests.support.data.taxi_days import look_at_days, write_taxi_days

NIGHTS = [f"2015-06-{day:02}" for day in range(1, 9)]
PREPARED = NIGHTS[0], NIGHTS[7]
NUM_DAYS = 30
LATE = "2015-06-03"  # the day whose file has not arrived in its night
CHAMPION = "projects/p/locations/l/models/5@{}"


@dataclass
class Replayed:
    """The data of each night, and the version that it would promote."""

    root: Path
    days: Path
    counts: dict[str, int]
    champion: Champion = field(default_factory=Champion)
    num_versions: int = 0
    inputs: dict[str, Start] = field(default_factory=dict)
    manifests: dict[str, dict] = field(default_factory=dict)
    compared: dict[str, Comparison] = field(default_factory=dict)

    def look(self, night: str = "", *, created: str = "2026-01-01", **prepare: str) -> Start:
        """Look at the data of a night's run, or of one by hand; it is three o'clock in Chicago."""
        settings = {
            "files": [f"{self.days}/{{run_date-1d:%Y-%m-%d}}.csv"],
            "window": f"{NUM_DAYS}d",
            "baseline": "previous",
            "run_time_zone": "America/Chicago",
            "num_workers": 1,
        }
        return look_at_days(
            self.root,
            prepare=json.dumps(settings | prepare),
            trigger='{"new_files": true}',
            champion=self.champion,
            schedule_time=night and f"{night}T08:00:00Z",
            create_time=f"{created}T00:00:00Z",
        )

    def run(self, night: str) -> None:
        """The steps of a run up to its training, and what its promotion leaves."""
        self.inputs[night] = found = self.look(night, created=night)
        if found.verdict == NOTHING_NEW:
            return
        folder, model = self.root / night, self.root / "model"
        model.mkdir(exist_ok=True)
        options = PrepareOptions.from_json(found.prepare)
        if night in PREPARED:
            self.manifests[night] = prepare("taxi", output_dir=folder, options=options)
            self.compared[night] = compare(str(folder), found.comparison)
        else:
            folder.mkdir()
            (folder / "manifest.json").write_text("{}")
        data = check_unchanged(found.fingerprint, "taxi", data_dir=self.root, options=options)
        (folder / "input.json").write_text(data.to_json(options))
        write_data_facts(str(model), str(folder))
        self.num_versions += 1
        self.champion = Champion(version=CHAMPION.format(self.num_versions), model_uri=str(model))


@pytest.fixture(scope="module")
def replayed(tmp_path_factory):
    """Replay the nights."""
    days = tmp_path_factory.mktemp("days")
    counts = write_taxi_days(days, first="2015-05-01", last=NIGHTS[-1])
    (days / f"{LATE}.csv").unlink()
    replayed = Replayed(tmp_path_factory.mktemp("nights"), days, counts)
    for night in NIGHTS:
        replayed.run(night)
    return replayed


def window_of(night: str) -> list[str]:
    """The days whose trips a night reads: thirty, up to the day before."""
    last = datetime.date.fromisoformat(night)
    days = [last - datetime.timedelta(days=number) for number in range(1, NUM_DAYS + 1)]
    return [day.isoformat() for day in days if day.isoformat() != LATE]


def test_each_night_learns_from_the_thirty_days_before_it(replayed):
    assert [one.run_time[:10] for one in replayed.inputs.values()] == NIGHTS
    for night, manifest in replayed.manifests.items():
        read = sum(replayed.counts.get(day, 0) for day in window_of(night))
        assert manifest["rows"]["read"] == read > 0
    for name in ("fingerprint", "prepare"):
        assert len({getattr(one, name) for one in replayed.inputs.values()}) == len(NIGHTS)


def test_the_night_without_a_new_file_ends_early(replayed):
    inputs = replayed.inputs
    assert [night for night in NIGHTS if inputs[night].verdict == NOTHING_NEW] == ["2015-06-04"]
    assert inputs["2015-06-04"].reasons == "version 3 has seen every file"
    assert inputs["2015-06-05"].reasons == "1 new file since version 3: 2015-06-04.csv"


def test_a_night_is_compared_with_the_data_of_the_version_before_it(replayed):
    """A week later a quarter of the trips are others, and so are their months."""
    first, second = (replayed.compared[night] for night in PREPARED)
    assert (first.baseline, second.baseline) == ("", CHAMPION.format(6))
    [words] = [one for one in second.words if "trip_start_month" in one]
    assert words.startswith("trip_start_month: 6: 0 → 2")


def test_a_night_can_be_repeated_and_reproduced_by_its_date(replayed):
    again, first = replayed.look(NIGHTS[0]), replayed.inputs[NIGHTS[0]]
    assert (again.fingerprint, again.prepare) == (first.fingerprint, first.prepare)  # cache key
    by_hand = replayed.look(run_date="2015-06-05")
    assert by_hand.prepare == replayed.inputs["2015-06-05"].prepare
