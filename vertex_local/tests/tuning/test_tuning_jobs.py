"""Tuning jobs against the real service, with small scripts as trials."""

import json

import pytest
from google_cloud_pipeline_components.v1 import hyperparameter_tuning_job
from kfp import compiler, dsl

from vertex_local.tests.support.jobs import python_job, wait_for_end
from vertex_local.tests.support.seen import is_running
from vertex_local.tests.support.service import sdk_at
from vertex_local.tests.support.waiting import wait_until

pytestmark = pytest.mark.timeout(120)

# As cloudml-hypertune writes its file: the metric is `x`, reported at three steps.
REPORT = """
import json, os, sys, time
arguments = dict(one[2:].split("=") for one in sys.argv[1:])
path = os.environ["CLOUD_ML_HP_METRIC_FILE"]
os.makedirs(os.path.dirname(path), exist_ok=True)
lines = []
for step in (1, 2, 3):
    line = {"timestamp": time.time(), "trial": os.environ["CLOUD_ML_TRIAL_ID"]}
    lines.append(json.dumps({**line, "score": arguments["x"], "global_step": str(step)}))
with open(path, "w") as file:  # at once: a trial may be stopped from its first number on
    file.write("\\n".join(lines) + "\\n")
"""
SLEEP = f"{REPORT}\ntime.sleep(100)"
GRID = [{"parameterId": "x", "discreteValueSpec": {"values": [1, 2, 3]}}]


@pytest.fixture
def service(forking_service):
    return forking_service


@pytest.fixture
def aiplatform(service):
    return sdk_at(service)


def tuning_job(code, *, output=None, **fields):
    spec = python_job(code)["jobSpec"]
    if output:
        spec["baseOutputDirectory"] = {"outputUriPrefix": str(output)}
    return {
        "displayName": "tune",
        "labels": {"run": "r1"},
        "maxTrialCount": 3,
        "parallelTrialCount": 2,
        "studySpec": {
            "metrics": [{"metricId": "score", "goal": "MINIMIZE"}],
            "parameters": GRID,
            "algorithm": "GRID_SEARCH",
            **fields.pop("study", {}),
        },
        "trialJobSpec": spec,
        **fields,
    }


def get(service, job):
    return service.do("GET", f"/v1/{job['name']}")


def wait_for_trials(service, job, count, state="ACTIVE"):
    def trials():
        found = [one for one in get(service, job)["trials"] if one["state"] == state]
        return found if len(found) >= count and all("measurements" in one for one in found) else []

    return wait_until(trials, f"{count} trials that are {state} with a measurement")


def custom_job(service, trial):
    return service.do("GET", f"/v1/{trial['customJob']}")


def values(job):
    return [one["finalMeasurement"]["metrics"][0]["value"] for one in job["trials"]]


def run(service, body):
    return wait_for_end(service, service.do("POST", "hyperparameterTuningJobs", body))


def test_a_grid_is_searched_to_its_end_with_a_bad_trial_stopped_early(service, tmp_path):
    code = f"{REPORT}\nif arguments['x'] == '3': time.sleep(100)"
    body = tuning_job(
        code,
        output=tmp_path / "out",
        maxTrialCount=9,
        parallelTrialCount=1,
        study={"medianAutomatedStoppingSpec": {}},
    )
    body["labels"] = {"run": "grid"}
    created = service.do("POST", "hyperparameterTuningJobs", body)
    assert created["state"] == "JOB_STATE_PENDING"
    job = wait_for_end(service, created)
    assert job["state"] == "JOB_STATE_SUCCEEDED"
    assert job["createTime"] <= job["startTime"] <= job["endTime"] == job["updateTime"]
    assert [one["id"] for one in job["trials"]] == ["1", "2", "3"]
    assert [one["state"] for one in job["trials"]] == ["SUCCEEDED"] * 3
    assert values(job) == [1, 2, 3]
    _, trial, bad = job["trials"]
    assert custom_job(service, bad)["state"] == "JOB_STATE_CANCELLED"
    assert trial["parameters"] == [{"parameterId": "x", "value": 2.0}]
    assert [one["stepCount"] for one in trial["measurements"]] == ["1", "2", "3"]
    assert trial["startTime"] <= trial["endTime"]
    made = custom_job(service, trial)
    assert made["labels"] == {"run": "grid"}
    spec = made["jobSpec"]
    assert spec["workerPoolSpecs"][0]["containerSpec"]["args"] == ["--x=2"]
    assert spec["baseOutputDirectory"]["outputUriPrefix"] == f"{tmp_path}/out/2"
    listed = service.do("GET", 'hyperparameterTuningJobs?filter=labels.run="grid"')
    assert [one["name"] for one in listed["hyperparameterTuningJobs"]] == [job["name"]]
    service.do("DELETE", f"/v1/{job['name']}")
    assert service.call("GET", f"/v1/{job['name']}").status_code == 404


def test_failed_trials_are_infeasible_and_end_the_job_at_their_limit(service):
    code = f"{REPORT}\nif arguments['x'] != '1': sys.exit('broken')"
    job = run(service, tuning_job(code, maxFailedTrialCount=1, parallelTrialCount=1))
    assert job["state"] == "JOB_STATE_FAILED"
    assert [one["state"] for one in job["trials"]] == ["SUCCEEDED", "INFEASIBLE"]
    assert job["trials"][1]["infeasibleReason"] in job["error"]["message"]
    assert "1 of 2 trials" in job["error"]["message"]


def test_a_cancelled_job_keeps_its_trials_and_ends_their_processes(service):
    code = f"{REPORT}\nif arguments['x'] != '1': time.sleep(100)"
    created = service.do("POST", "hyperparameterTuningJobs", tuning_job(code))
    wait_for_trials(service, created, 1, "SUCCEEDED")
    wait_for_trials(service, created, 2)
    assert service.call("DELETE", f"/v1/{created['name']}").status_code == 400
    service.do("POST", f"/v1/{created['name']}:cancel")
    job = wait_for_end(service, created)
    assert job["state"] == "JOB_STATE_CANCELLED"
    assert [one["state"] for one in job["trials"]] == ["SUCCEEDED", "INFEASIBLE", "INFEASIBLE"]
    assert job["trials"][1]["infeasibleReason"] == "The tuning job was cancelled."
    assert custom_job(service, job["trials"][1])["state"] == "JOB_STATE_CANCELLED"


def test_the_next_services_continue_and_count_no_trial_twice(service, tmp_path):
    release = tmp_path / "release"
    code = (
        f"{REPORT}\nwhile arguments['x'] != '1' and not os.path.exists({str(release)!r}):"
        " time.sleep(0.05)"
    )
    created = service.do("POST", "hyperparameterTuningJobs", tuning_job(code))
    wait_for_trials(service, created, 1, "SUCCEEDED")
    for end in (service.stop, service.kill):
        before = wait_for_trials(service, created, 2)
        folder = service.root / "jobs" / before[0]["customJob"].rpartition("/")[2]
        pid = json.loads((folder / "state.json").read_text())["replicas"]["chief/0"]["pid"]
        end()
        wait_until(lambda pid=pid: not is_running(pid), f"the end of {pid}")
        service.start()
        assert get(service, created)["state"] == "JOB_STATE_RUNNING"
        old = {one["customJob"] for one in before}

        def is_again(old=old) -> bool:
            return not old & {one["customJob"] for one in get(service, created)["trials"]}

        wait_until(is_again, "other jobs of the trials")
        assert [one["id"] for one in wait_for_trials(service, created, 2)] == ["2", "3"]
    release.touch()
    job = wait_for_end(service, created)
    assert job["state"] == "JOB_STATE_SUCCEEDED"
    assert values(job) == [1, 2, 3]
    assert [len(one["measurements"]) for one in job["trials"]] == [3, 3, 3]


def test_a_cancellation_is_not_lost_with_the_service(service):
    created = service.do("POST", "hyperparameterTuningJobs", tuning_job(SLEEP))
    wait_for_trials(service, created, 2)
    service.do("POST", f"/v1/{created['name']}:cancel")
    service.kill()
    service.start()
    assert wait_for_end(service, created)["state"] == "JOB_STATE_CANCELLED"


def test_the_op_of_gcpc_runs_a_bayesian_study_that_the_sdk_reads(aiplatform, service, tmp_path):
    parameters = {
        "x": aiplatform.hyperparameter_tuning.DoubleParameterSpec(min=0.001, max=1, scale="log"),
        "units": aiplatform.hyperparameter_tuning.IntegerParameterSpec(min=1, max=8, scale=None),
    }
    # kfp pastes texts into the payload unescaped, so the code is in a file.
    (tmp_path / "trial.py").write_text(REPORT)
    container = {"image_uri": "i", "command": ["python", str(tmp_path / "trial.py")]}
    machine = {"machine_type": "n1-standard-4"}
    pool = {"replica_count": "1", "machine_spec": machine, "container_spec": container}

    @dsl.pipeline(name="tune")
    def tune():
        hyperparameter_tuning_job.HyperparameterTuningJobRunOp(
            display_name="op",
            project="demo",
            location="us-central1",
            base_output_directory=str(tmp_path / "out"),
            worker_pool_specs=[pool],
            study_spec_metrics=hyperparameter_tuning_job.serialize_metrics({"score": "maximize"}),
            study_spec_parameters=hyperparameter_tuning_job.serialize_parameters(parameters),
            max_trial_count=2,
            parallel_trial_count=2,
        )

    compiler.Compiler().compile(tune, str(tmp_path / "tune.yaml"))
    run = aiplatform.PipelineJob(
        display_name="tune",
        template_path=str(tmp_path / "tune.yaml"),
        pipeline_root=str(tmp_path / "root"),
        location="us-central1",
    )
    run.submit()
    run.wait()
    [job] = service.do("GET", 'hyperparameterTuningJobs?filter=display_name="op"')[
        "hyperparameterTuningJobs"
    ]
    assert job["state"] == "JOB_STATE_SUCCEEDED"
    assert [one["state"] for one in job["trials"]] == ["SUCCEEDED"] * 2
    assert job["studySpec"]["measurementSelectionType"] == "BEST_MEASUREMENT"
    for trial in aiplatform.HyperparameterTuningJob.get(job["name"]).trials:
        point = {one.parameter_id: one.value for one in trial.parameters}
        assert point.keys() == {"x", "units"}
        assert trial.final_measurement.metrics[0].value == pytest.approx(point["x"])


def test_a_trial_that_cannot_be_created_fails_the_job(service, tmp_path):
    (tmp_path / "out").touch()  # a file, in which no trial's folder can be made
    job = run(service, tuning_job(SLEEP, output=tmp_path / "out"))
    assert job["state"] == "JOB_STATE_FAILED"
    assert f"{tmp_path}/out" in job["error"]["message"]
