"""`trainyard plan`, `submit --dry-run` and --max-cost, with a service and without one."""

import json

import pytest
from kfp import compiler, dsl

from components.prepare_examples import fingerprint
from components.prepare_examples.raw_data.files import Object
from components.start.trigger import NOTHING_NEW
from pipelines.plan import run_plan
from pipelines.plan.earlier_tasks import EarlierTask, LocalCache

ENDED = {"state": "PIPELINE_STATE_FAILED"}
PULLABLE = ("--image", "us-docker.pkg.dev/p/r/trainyard:1")
ON_VERTEX = ("--on", "vertex", "--project", "p", "--pipeline-root", "gs://b/runs", *PULLABLE)


@pytest.fixture
def service(forking_service):
    return forking_service


def test_a_plan_names_tasks_price_quota_and_endpoint_and_sends_nothing(trainyard):
    runs = trainyard("runs", "list", "--json")
    code, output, error = trainyard("plan", "taxi")
    assert code == 0, error
    lines = output.splitlines()
    assert lines[0].split() == ["TASK", "SECONDS", "WHY"]
    assert "no earlier run has finished it" in output
    reasons = {line.split()[0]: line for line in lines if line}
    assert reasons["upload-model"].endswith("passes the gate, or is kept as a challenger")
    assert reasons["deploy-model"].endswith("only if the model passes the gate")
    assert "at most $0.44 by its time limit" in output
    assert "quota     on Vertex AI in us-central1: custom_model_training_cpus 4" in lines
    assert "endpoint taxi stays only if it served before this run" in output
    output = trainyard("plan", "taxi", "--keep-endpoint")[1]
    assert output.endswith("its default version; endpoint taxi stays\n")
    plan = json.loads(trainyard("plan", "taxi", "--json")[1])
    states = {task["name"]: task["state"] for task in plan["tasks"]}
    assert states["prepare-examples"] == states["train"] == "runs"
    assert states["upload-model"] == "depends"
    assert plan["price"]["most"] == pytest.approx(0.437)
    assert (plan["location"], plan["quota"]) == ("us-central1", {"custom_model_training_cpus": 4})
    assert trainyard("runs", "list", "--json") == runs


def test_a_training_on_a_persistent_resource_has_no_price_of_its_own(trainyard):
    settings = ("--set", "cluster.persistent_resource=pool-1")
    note = "no machine is started; the persistent resource pool-1 costs as long as it exists"
    _, output, _ = trainyard("plan", "taxi", *settings)
    assert f"price     training on Vertex AI: {note}" in output
    assert "quota " not in output
    code, _, error = trainyard("plan", "taxi", *settings, "--max-cost", "1")
    assert (code, f"--max-cost: {note}" in error) == (2, True)


def test_without_a_login_a_dry_run_still_shows_what_is_known(trainyard, monkeypatch, caplog):
    monkeypatch.delenv("VERTEX_EMULATOR_HOST")
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", "/nonexistent.json")
    code, output, _ = trainyard("submit", "taxi", "--dry-run", *ON_VERTEX)
    assert code == 0
    assert "nothing is known of earlier runs: File /nonexistent.json was not found" in caplog.text
    assert any(line.split()[:2] == ["train", "runs"] for line in output.splitlines())


def test_a_dry_run_prints_the_request_as_json(trainyard):
    code, output, error = trainyard("submit", "taxi", "--dry-run", "--json", *ON_VERTEX)
    assert code == 0
    assert error.startswith("POST /v1/projects/p/locations/us-central1/pipelineJobs?")
    assert json.loads(output)["runtimeConfig"]["parameterValues"]["workload"] == "taxi"


def test_a_limit_of_the_cost_is_the_time_limit_of_the_job(trainyard):
    _, output, _ = trainyard("plan", "taxi", "--max-cost", "0.1")
    assert "at most $0.10 by its time limit" in output
    plan = json.loads(trainyard("plan", "taxi", "--max-cost", "0.1", "--json")[1])
    assert plan["price"]["most"] <= 0.1
    request = json.loads(trainyard("submit", "taxi", "--dry-run", "--json", "--max-cost=0.1")[1])
    cluster = json.loads(request["runtimeConfig"]["parameterValues"]["cluster"])
    assert cluster["timeout_seconds"] < 2000  # the run is sent with it


def test_a_limit_that_is_no_amount_or_cannot_be_kept_is_refused(trainyard, capsys):
    for amount in ("nan", "inf", "-5", "five"):
        with pytest.raises(SystemExit):
            trainyard("plan", "taxi", f"--max-cost={amount}")
        assert f"{amount!r} is not allowed; give a number above 0" in capsys.readouterr().err
    for machine, message in (
        ("n2-standard-4", "has no price of n2-standard-4; add it there"),
        ("n1-standard-4", "--max-cost is $1e-09, which pays for less than a second"),
    ):
        setting = f"cluster.machine={machine}"
        code, _, error = trainyard("plan", "taxi", "--max-cost", "1e-9", "--set", setting)
        assert (code, message in error) == (2, True)


@pytest.mark.parametrize("is_allowed", [True, False], ids=["read", "forbidden"])
def test_a_plan_on_vertex_ai_reads_the_bucket_or_says_that_it_cannot(
    trainyard, monkeypatch, caplog, is_allowed
):
    """No bucket is mounted where the plan is made, and its author may not have the run's rights."""

    def find(pattern: str) -> list[Object]:
        if not is_allowed:
            raise PermissionError(f"{pattern}: 403")
        return [Object(pattern, 1, 1)]

    monkeypatch.setattr(fingerprint, "find_objects", find)
    bucket = ("--set", "prepare.files=gs://b/data.csv", "--data-dir", "gs://b/data")
    code, output, error = trainyard("plan", "taxi", *ON_VERTEX, *bucket)
    assert code == 0, error
    row = next(line for line in output.splitlines() if line.startswith("prepare-examples"))
    reason = "no earlier run has finished it" if is_allowed else "its inputs come from start"
    assert row.endswith(reason)
    unknown = "the plan does not know whether the data has changed: gs://b/data.csv: 403"
    assert (unknown in caplog.text) is not is_allowed


def test_steps_are_executed_on_this_machine_only(trainyard):
    code, _, error = trainyard("step", "latest", "evaluate", *ON_VERTEX[:6])
    assert code == 2
    assert "step executes tasks on this machine only" in error


def earlier(job=ENDED, **artifacts):
    """Return a task of an earlier run with artifacts as outputs."""
    outputs = {name: {"artifacts": [{"uri": str(path)}]} for name, path in artifacts.items()}
    return EarlierTask(job=job, detail={"outputs": outputs}, component={}, container={})


@pytest.fixture
def cached(tmp_path):
    """Write an entry of the step cache."""
    folder = tmp_path / "vertex/step_cache"
    folder.mkdir(parents=True)

    def write(name="a", text="", **entry):
        (folder / f"{name}.json").write_text(text or json.dumps(entry))

    return write


def test_a_damaged_entry_of_the_cache_has_no_outputs(tmp_path, cached):
    nothing = '{"outputs": {"parameters": {}, "artifacts": {}}'
    texts = ("{}", "[", '{"outputs": 5}', '{"outputs": {"parameters": {}}}', f"{nothing}}}")
    for number, text in enumerate(texts):
        cached(str(number), text)
    assert not LocalCache(tmp_path).has(earlier())
    cached(text=f'{nothing}, "pending": [], "files": []}}')
    assert LocalCache(tmp_path).has(earlier())


def test_an_output_without_one_of_its_files_is_not_in_the_cache(tmp_path, cached):
    examples = tmp_path / "examples"
    examples.mkdir()
    shard = examples / "train-0"
    shard.touch()
    outputs = {"parameters": {}, "artifacts": {"examples": [{"uri": str(examples)}]}}
    cached(outputs=outputs, pending=[], files=[str(shard)])
    task = earlier(examples=examples)

    assert LocalCache(tmp_path).has(task)
    shard.unlink()
    assert not LocalCache(tmp_path).has(task)


def test_a_folder_in_which_an_unfinished_run_trains_is_not_free(tmp_path, cached):
    model = tmp_path / "model"
    outputs = {"parameters": {}, "artifacts": {"model": [{"uri": str(model)}]}}
    cached(outputs=outputs, pending=[str(model)], files=[])
    ended, running = (
        earlier(job, model=model) for job in (ENDED, {"state": "PIPELINE_STATE_RUNNING"})
    )

    assert LocalCache(tmp_path).has(ended)
    cache = LocalCache(tmp_path)
    assert not cache.has(running)
    assert not cache.has(ended)  # the unfinished run took the folder from it
    model.touch()
    assert LocalCache(tmp_path).has(running)


def test_runs_of_the_same_pipeline_share_outputs(trainyard, tmp_path):
    """The service's cache is in another folder than that of the state."""

    @dsl.component(base_image="python:3.11")
    def count(number: int) -> int:
        return number + 1

    def package(name: str) -> str:
        @dsl.pipeline(name=name)
        def pipeline(number: int = 1):
            count(number=number)

        compiler.Compiler().compile(pipeline, str(tmp_path / f"{name}.yaml"))
        return str(tmp_path / f"{name}.yaml")

    assert trainyard("submit", package("first"), "--name", "run-1", "--wait")[0] == 0
    for name, state in (("first", "cached"), ("second", "runs")):
        plan = json.loads(trainyard("plan", package(name), "--json")[1])
        assert [task["state"] for task in plan["tasks"]] == [state]


def test_a_training_that_is_skipped_costs_nothing(trainyard, monkeypatch):
    def start(_):
        return {"verdict": NOTHING_NEW}

    monkeypatch.setattr(run_plan, "foreseen", lambda *_, **__: {"start": start})
    code, output, error = trainyard("plan", "taxi", "--max-cost", "1e-9")
    assert code == 0, error
    assert "price " not in output
    assert "quota " not in output
    assert output.endswith("leaves    no new version\n")
