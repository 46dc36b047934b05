"""Runs that a schedule starts, with a clock that the tests set."""

import threading

import pytest

from vertex_local.api.database import reserve
from vertex_local.errors import ApiError
from vertex_local.machine.clock import Clock
from vertex_local.pipelines import record
from vertex_local.pipelines import resource as pipelines
from vertex_local.schedules import resource as schedules
from vertex_local.schedules import scheduler
from vertex_local.tests.support.clocked_service import PARENT, SPEC, World

pytestmark = pytest.mark.fast


@pytest.fixture
def world(tmp_path, monkeypatch):
    launched = []
    monkeypatch.setattr(pipelines, "launch", lambda service, job: launched.append(job))
    world = World(tmp_path, launched)
    yield world
    world.service.store.close()


JOB = {"pipelineSpec": SPEC, "runtimeConfig": {"gcsOutputDirectory": "/r"}}


def request(**fields):
    """Return the change of a schedule whose run has these fields."""
    run = {"parent": PARENT, "pipelineJob": JOB}
    return {"createPipelineJobRequest": run | fields}


def run_with(**fields):
    return request(pipelineJob=JOB | fields)


def commanded(*words):
    executors = {"exec-a": {"container": {"image": "i", "command": list(words)}}}
    return run_with(pipelineSpec={**SPEC, "deploymentSpec": {"executors": executors}})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cron": "0 0 3 * * *"}, "6 fields"),
        ({"cron": "TZ=Mars/Olympus 0 3 * * *"}, "'Mars/Olympus'"),
        ({"startTime": "2030-01-02T00:00:00Z", "endTime": "2030-01-01T00:00:00Z"}, "not after"),
        ({"endTime": "2020-01-01T00:00:00Z"}, "has passed"),
        ({"crom": "0 3 * * *"}, "crom"),
        (request(parent="projects/other/locations/l"), "parent is"),
        (request(pipelineJobId="same"), "pipelineJobId must be empty"),
        (request(pipelineJob={}), "pipelineSpec is missing"),
        (commanded("echo", "hello"), "--containers"),
        (
            run_with(runtimeConfig={**JOB["runtimeConfig"], "parameterValues": {"txet": "a"}}),
            '"txet"',
        ),
    ],
    ids=lambda value: value[:20] if isinstance(value, str) else "",
)
def test_an_invalid_schedule_is_refused_and_not_stored(world, change, message):
    with pytest.raises(ApiError, match=message) as error:
        world.create(**change)
    assert error.value.code == 400
    assert world.call(schedules.list_schedules) == {"schedules": []}


def test_lists_come_in_pages(world):
    for number in range(3):
        world.create(displayName=f"s{number}")

    first = world.call(schedules.list_schedules, pageSize="2")
    rest = world.call(schedules.list_schedules, pageSize="2", pageToken=first["nextPageToken"])

    names = [one["displayName"] for page in (first, rest) for one in page["schedules"]]
    assert (names, "nextPageToken" in rest) == (["s0", "s1", "s2"], False)


def test_one_run_starts_each_night(world):
    world.create()

    assert world.at("2026-11-21T02:59") == []
    assert world.at("2026-11-21T03:00") == ["21T03"]
    assert world.at("2026-11-21T03:00") == []
    world.end_runs()
    assert world.at("2026-11-22T03:01") == ["22T03"]

    schedule = world.get()
    assert schedule["startedRunCount"] == "2"
    assert schedule["nextRunTime"] == "2026-11-23T03:00:00Z"
    assert schedule["lastScheduledRunResponse"] == {
        "scheduledRunTime": "2026-11-22T03:00:00Z",
        "runResponse": world.runs()[1]["name"],
    }
    assert world.runs()[0]["name"] == f"{PARENT}/pipelineJobs/nightly-{world.id}-20261121030000"
    assert {run["scheduleName"] for run in world.runs()} == {schedule["name"]}
    assert len({run["labels"][pipelines.BILLING_LABEL] for run in world.runs()}) == 2


def test_a_run_is_told_the_time_of_its_schedule_even_if_it_starts_late(world):
    world.create()
    world.at("2026-11-21T03:07")
    [job] = world.launched
    told = record.run_values(job)
    assert told["{{$.pipeline_job_schedule_time_utc}}"] == "2026-11-21T03:00:00Z"
    assert told["{{$.pipeline_job_create_time_utc}}"] == job["createTime"]
    by_hand = record.run_values({**job, "scheduledRunTime": ""})
    assert by_hand["{{$.pipeline_job_schedule_time_utc}}"] == job["createTime"]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param({"maxRunCount": "2"}, ["21T03", "22T03"], id="maximum runs"),
        pytest.param({"endTime": "2026-11-22T03:00:00Z"}, ["21T03", "22T03"], id="end"),
        pytest.param(
            {"startTime": "2026-11-22T03:00:00Z", "maxRunCount": "1"}, ["22T03"], id="start"
        ),
    ],
)
def test_a_schedule_is_completed_at_its_limits(world, fields, expected):
    world.create(**fields)
    started = []
    for day in range(21, 25):
        started += world.at(f"2026-11-{day}T03:00")
        world.end_runs()

    assert started == expected
    assert world.get()["state"] == "COMPLETED"
    assert "nextRunTime" not in world.get()
    with pytest.raises(ApiError, match="is COMPLETED"):
        world.call(schedules.pause)
    with pytest.raises(ApiError, match="cannot be changed"):
        world.call(schedules.update, body={"maxRunCount": "9"}, updateMask="maxRunCount")


def test_a_run_is_skipped_while_another_is_active(world):
    world.create()
    world.at("2026-11-21T03:00")

    assert world.at("2026-11-22T03:00") == []
    world.end_runs()
    assert world.at("2026-11-22T04:00") == []
    assert world.at("2026-11-23T03:00") == ["23T03"]


def test_with_queueing_a_run_waits_for_the_active_one(world):
    world.create(allowQueueing=True)
    world.at("2026-11-21T03:00")

    assert world.at("2026-11-22T03:00") == []
    assert world.at("2026-11-23T03:00") == []
    assert world.get()["nextRunTime"] == "2026-11-22T03:00:00Z"
    world.end_runs()
    assert world.at("2026-11-23T04:00") == ["22T03"]
    world.end_runs()
    assert world.at("2026-11-23T05:00") == ["23T03"]


def test_the_number_of_active_runs_is_limited(world):
    world.create(maxConcurrentRunCount="1", maxConcurrentActiveRunCount="2")

    assert world.at("2026-11-21T03:00") == ["21T03"]
    assert world.at("2026-11-22T03:00") == ["22T03"]
    assert world.at("2026-11-23T03:00") == []


def test_after_sleep_of_the_machine_only_the_last_missed_run_starts(world):
    world.create()

    assert world.at("2026-11-24T09:00") == ["24T03"]


def catch_up(world):
    world.call(schedules.pause)
    world.call(schedules.resume, body={"catchUp": True})


def test_runs_missed_while_the_service_was_down_are_skipped(world):
    world.create()
    world.restart("2026-11-23T12:00")

    assert world.at("2026-11-23T12:00") == []
    assert world.at("2026-11-24T03:00") == ["24T03"]


def test_with_catch_up_missed_runs_start_one_after_the_other(world):
    world.create()
    catch_up(world)
    world.restart("2026-11-23T12:00")

    assert world.at("2026-11-23T12:00") == ["21T03"]
    assert world.at("2026-11-23T12:01") == [], "the first still runs"
    world.end_runs()
    assert world.at("2026-11-23T12:02") == ["22T03"]
    world.end_runs()
    assert world.at("2026-11-23T12:03") == ["23T03"]
    world.end_runs()
    assert world.at("2026-11-23T12:04") == []


@pytest.mark.parametrize("with_catch_up", [False, True])
def test_a_paused_schedule_starts_nothing_and_resuming_uses_catch_up(world, with_catch_up):
    world.create()
    world.call(schedules.pause)
    assert (world.get()["state"], "nextRunTime" in world.get()) == ("PAUSED", False)
    assert world.at("2026-11-21T12:00") == []

    world.call(schedules.resume, body={"catchUp": with_catch_up})

    assert world.at("2026-11-21T12:00") == (["21T03"] if with_catch_up else [])
    assert world.get()["nextRunTime"] == "2026-11-22T03:00:00Z"
    assert world.get()["catchUp"] is with_catch_up


def test_an_update_skips_runs_that_are_due(world):
    world.create()
    world.service.clock.set("2026-11-22T12:00")

    fields = {"cron": "TZ=Europe/Berlin 0 5 * * *", "displayName": "later"}
    changed = world.call(schedules.update, body=fields, updateMask="cron,displayName")

    assert changed["nextRunTime"] == "2026-11-23T04:00:00Z"
    assert (changed["displayName"], changed["cron"]) == ("later", fields["cron"])


@pytest.mark.parametrize("is_restarted", [False, True], ids=["running", "restarted"])
@pytest.mark.parametrize("ahead", ["2026-11-20T14:30", "2026-11-23T03:00", "9999-01-01T00:00"])
def test_a_schedule_continues_from_now_after_a_clock_that_was_ahead(
    world, caplog, ahead, is_restarted
):
    """The next hourly run was set in the future, also by a service that has ended."""
    world.create(
        cron="0 * * * *",
        endTime="2026-11-20T15:00:00Z" if "9999" in ahead else "2999-01-01T00:00:00Z",
    )
    early = world.at(ahead)
    world.end_runs()
    if is_restarted:
        world.restart("2026-11-20T12:30")

    assert world.at("2026-11-20T12:30") == []

    assert "the clock was set back" in caplog.text
    assert world.get()["nextRunTime"] == "2026-11-20T13:00:00Z"
    assert "decidedAt" not in world.get()
    assert world.at("2026-11-20T13:00") == ["20T13"]
    world.end_runs()
    assert world.at("2026-11-20T14:00") == ([] if early == ["20T14"] else ["20T14"]), (
        "each run once"
    )
    assert caplog.text.count("the clock was set back") == 1


def test_a_schedule_resumed_with_catch_up_continues_from_now_after_a_clock_that_was_ahead(world):
    world.create()
    world.at("2027-11-21T03:00")
    world.end_runs()
    world.service.clock.set("2026-11-20T12:00")
    catch_up(world)

    assert world.at("2026-11-20T12:30") == []
    assert world.at("2026-11-21T03:00") == ["21T03"]


@pytest.mark.parametrize("zone", ["Etc/GMT+12", "Etc/GMT-14"])
def test_dates_at_the_ends_of_the_calendar_are_refused_or_have_an_effect(world, zone):
    cron = f"TZ={zone} 0 3 * * *"
    world.create(cron=cron, startTime="0001-01-01T00:00:00Z", endTime="9999-12-31T23:59:59Z")
    assert world.get()["nextRunTime"] < "2026-11-22"
    for body in ({"startTime": "9999-12-30T00:00:00Z"}, {"startTime": "9999-12-31T23:59:59Z"}):
        with pytest.raises(ApiError, match="more than fifty years ahead"):
            world.call(schedules.update, body=body, updateMask="startTime")
        with pytest.raises(ApiError, match="more than fifty years ahead"):
            world.create(cron=cron, **body)


class Crashed(BaseException):
    """Simulated end of the process."""


@pytest.mark.parametrize("place", ["insert", "launch"])
def test_no_run_starts_twice_after_a_crash(world, monkeypatch, place):
    world.create()
    before, launched = getattr(pipelines, place), world.launched

    def crash(*arguments):
        if place == "launch":
            before(*arguments)
        raise Crashed

    with monkeypatch.context() as patch:
        patch.setattr(pipelines, place, crash)
        with pytest.raises(Crashed):
            world.at("2026-11-21T03:00")
    world.service.store.close()
    world.open("2026-11-21T03:00")

    world.at("2026-11-21T03:00")

    assert len(launched) == len(world.runs()) == 1
    assert world.get()["startedRunCount"] == "1"


def test_a_run_that_cannot_be_stored_is_reported_and_the_next_one_starts(world, monkeypatch):
    world.create()
    with monkeypatch.context() as patch:

        def refuse(*arguments):
            raise OSError(28, "No space left")

        patch.setattr(pipelines, "insert", refuse)
        assert world.at("2026-11-21T03:00") == []

    assert "No space left" in world.get()["lastScheduledRunResponse"]["runResponse"]
    assert world.get()["startedRunCount"] == "0"
    assert world.at("2026-11-22T03:00") == ["22T03"]


def test_a_schedule_that_fails_does_not_stop_the_others(world):
    world.create(displayName="first")
    name = world.get()["name"]
    world.create(displayName="second")
    world.service.store.update(name, lambda record: record.update(cron="broken"))

    assert world.at("2026-11-21T03:00") == ["21T03"]


def test_the_name_of_a_pipeline_is_escaped_in_run_ids():
    record = {"name": f"{PARENT}/schedules/7", "nextRunTime": "2026-11-21T03:00:00Z"}

    name = scheduler.run_id(record, {"pipelineInfo": {"name": "../../etc/X y"}})

    assert name == "------etc-x-y-7-20261121030000"


def test_the_thread_starts_runs_only_in_a_service_that_stays(world, monkeypatch):
    monkeypatch.setattr(scheduler, "STAY_POLL_SECONDS", 0.01)
    started = threading.Event()
    monkeypatch.setattr(pipelines, "launch", lambda service, job: started.set())
    world.create()
    schedules.recover(world.service)
    try:
        world.service.clock.set("2026-11-20T13:00")
        world.service.stays.set()
        assert not started.wait(0.1)
        world.service.clock.set("2026-11-21T03:00")
        scheduler.Scheduler.wake(world.service)
        assert started.wait(10)
    finally:
        world.service.closing.set()
        schedules.close(world.service)
    assert "schedules" not in world.service.running


def test_a_clock_may_run_faster():
    clock = Clock(speed=86400)
    before = clock.now()
    clock.wait(threading.Event(), until=before)
    assert (clock.now() - before).total_seconds() > 60


def test_on_a_full_disk_no_run_is_started_and_the_schedule_says_why(world, monkeypatch):
    world.create()
    with monkeypatch.context() as patch:
        patch.setattr(reserve, "_free", lambda root: (0, 0))
        assert world.at("2026-11-21T03:00") == []
    assert "No space left" in world.get()["lastScheduledRunResponse"]["runResponse"]
    assert world.at("2026-11-22T03:00") == ["22T03"]
