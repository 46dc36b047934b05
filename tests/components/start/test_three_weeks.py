"""Three weeks of real taxi days, a night after the other, with the trainings left out.

The schedule's runs are started by the real scheduler, whose clock the test sets; their data steps
are called as in a run, with the placeholders that the service fills. To be quick, the examples are
prepared in one night of a week. `tools/soak/three_weeks.py` has the whole runs.
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
from vertex_local.pipelines import placeholders
from vertex_local.pipelines import resource as pipelines
from vertex_local.tests.support.clocked_service import World

pytestmark = pytest.mark.fast
FIRST_NIGHT = datetime.date(2015, 6, 1)
NUM_NIGHTS, NUM_DAYS = 21, 30
LATE = "2015-06-10"  # the day whose file has not arrived in its night
CHAMPION = "projects/p/locations/l/models/5@{}"
TRIGGER = json.dumps({"new_files": True})


@dataclass
class Nights:
    """The data of each night, and the version that it would promote."""

    root: Path
    settings: str
    champion: Champion = field(default_factory=Champion)
    num_versions: int = 0
    inputs: dict[str, Start] = field(default_factory=dict)
    manifests: dict[str, dict] = field(default_factory=dict)
    compared: dict[str, Comparison] = field(default_factory=dict)

    def look(self, job: dict) -> Start:
        values = placeholders.of_job(job)
        return look_at_days(
            self.root,
            prepare=self.settings,
            trigger=TRIGGER,
            champion=self.champion,
            schedule_time=values["{{$.pipeline_job_schedule_time_utc}}"],
            create_time=values["{{$.pipeline_job_create_time_utc}}"],
        )

    def run(self, job: dict, *, prepares: bool) -> None:
        """The steps of a run up to its training, and what its promotion leaves."""
        found = self.look(job)
        night = found.run_time[:10]
        self.inputs[night] = found
        if found.verdict == NOTHING_NEW:
            return
        folder, model = self.root / night, self.root / "model"
        model.mkdir(exist_ok=True)
        options = PrepareOptions.from_json(found.prepare)
        if prepares:
            self.prepare(night, folder, options, found)
        else:
            folder.mkdir(exist_ok=True)
            (folder / "manifest.json").write_text("{}")
        data = check_unchanged(found.fingerprint, "taxi", data_dir=self.root, options=options)
        (folder / "input.json").write_text(data.to_json(options))
        write_data_facts(str(model), str(folder))
        self.num_versions += 1
        version = CHAMPION.format(self.num_versions)
        self.champion = Champion(version=version, model_uri=str(model))

    def prepare(self, night: str, folder: Path, options: PrepareOptions, found: Start) -> None:
        self.manifests[night] = prepare("taxi", output_dir=folder, options=options)
        self.compared[night] = compare(str(folder), found.comparison)


@pytest.fixture(scope="module")
def trips(tmp_path_factory):
    """The folder of the days, and the number of trips of each."""
    folder = tmp_path_factory.mktemp("days")
    counts = write_taxi_days(folder, first="2015-05-01", last="2015-06-21")
    (folder / f"{LATE}.csv").unlink()
    return folder, counts


@pytest.fixture(scope="module")
def replayed(trips, tmp_path_factory):
    """Three weeks of nights, each started by the schedule at three o'clock in Chicago."""
    folder, _ = trips
    settings = {
        "files": [f"{folder}/{{run_date-1d:%Y-%m-%d}}.csv"],
        "window": f"{NUM_DAYS}d",
        "baseline": "previous",
        "run_time_zone": "America/Chicago",
        "num_workers": 1,
    }
    nights = Nights(tmp_path_factory.mktemp("nights"), json.dumps(settings))
    launched: list[dict] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pipelines, "launch", lambda service, job: launched.append(job))
        world = World(tmp_path_factory.mktemp("vertex"), launched)
        world.service.clock.set(f"{FIRST_NIGHT}T00:00")
        world.create(cron="TZ=America/Chicago 0 3 * * *")
        for number in range(NUM_NIGHTS):
            world.at(f"{FIRST_NIGHT + datetime.timedelta(days=number)}T08:00")
            world.end_runs()
            nights.run(launched[-1], prepares=number % 7 == 0)
        world.service.store.close()
    assert len(launched) == NUM_NIGHTS
    return nights, launched


def window_of(night: str) -> list[str]:
    """The days whose trips a night reads: thirty, up to the day before."""
    last = datetime.date.fromisoformat(night)
    days = [last - datetime.timedelta(days=number) for number in range(1, NUM_DAYS + 1)]
    return [day.isoformat() for day in days if day.isoformat() != LATE]


def test_each_night_learns_from_the_thirty_days_before_it(replayed, trips):
    nights, _ = replayed
    _, counts = trips
    assert list(nights.manifests) == ["2015-06-01", "2015-06-08", "2015-06-15"]
    for night, manifest in nights.manifests.items():
        assert manifest["rows"]["read"] == sum(counts.get(day, 0) for day in window_of(night))


def test_no_two_nights_have_the_same_data(replayed):
    nights, _ = replayed
    assert list(nights.inputs) == [
        (FIRST_NIGHT + datetime.timedelta(days=number)).isoformat() for number in range(NUM_NIGHTS)
    ]
    assert len({one.fingerprint for one in nights.inputs.values()}) == NUM_NIGHTS
    assert len({one.prepare for one in nights.inputs.values()}) == NUM_NIGHTS


def test_the_night_without_a_new_file_ends_early(replayed):
    nights, _ = replayed
    ended = {night for night, one in nights.inputs.items() if one.verdict == NOTHING_NEW}
    assert ended == {"2015-06-11"}
    assert nights.inputs["2015-06-11"].reasons == "version 10 has seen every file"
    assert nights.inputs["2015-06-12"].reasons == "1 new file since version 10: 2015-06-11.csv"


def test_a_night_is_compared_with_the_data_of_the_version_before_it(replayed):
    """A week later a quarter of the trips are others, and so are their months."""
    nights, _ = replayed
    baselines = [one.baseline for one in nights.compared.values()]
    assert baselines == ["", CHAMPION.format(7), CHAMPION.format(13)]
    [words] = [one for one in nights.compared["2015-06-08"].words if "trip_start_month" in one]
    assert words.startswith("trip_start_month: 6: 0 → 2")


def test_the_same_night_again_has_the_same_cache_key(replayed):
    nights, launched = replayed
    again = nights.look({**launched[0], "createTime": "2026-01-01T00:00:00Z"})
    first = nights.inputs[FIRST_NIGHT.isoformat()]
    assert (again.fingerprint, again.prepare) == (first.fingerprint, first.prepare)


def test_a_night_can_be_reproduced_by_its_date(replayed):
    nights, launched = replayed
    settings = json.loads(nights.settings) | {"run_date": "2015-06-05"}
    by_hand = Nights(nights.root, json.dumps(settings))
    by_hand_job = {k: v for k, v in launched[0].items() if k != "scheduledRunTime"}
    assert by_hand.look(by_hand_job).prepare == nights.inputs["2015-06-05"].prepare
