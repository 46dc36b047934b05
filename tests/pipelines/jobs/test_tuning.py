"""Tuning jobs: the request, the best trial, its flags, and the page."""

import json

import pytest

from components.plan_training.shape import ClusterSpec
from pipelines.errors import ResourceError
from pipelines.jobs.request import job_request, with_flags
from pipelines.jobs.search_space import split_space
from pipelines.jobs.tuning import (
    best_line,
    count_folds,
    trials_table,
    tuning_facts,
    tuning_request,
    winner_flags,
    with_folds,
)
from pipelines.projects.runs import find_run
from trainer.errors import ConfigError
from vertex_local.api.protos import parse
from vertex_local.tuning.record import plan_study

pytestmark = pytest.mark.fast

JOB = {"name": "n", "image": "i", "examples_uri": "/examples", "output_uri": "/out"}
RATE = "train.learning_rate=1e-4..1e-2"


def request(*settings, workload="mnist", **train):
    config = find_run(workload)
    config = config.replace(train=config.train.replace(**train))
    _, varied = split_space(list(settings), config)
    return tuning_request(
        config,
        varied,
        num_trials=20,
        num_parallel=2,
        algorithm="bayesian",
        stops_early=True,
        **JOB,
    )


def test_the_request():
    found = request(RATE)
    assert found == {
        "displayName": "n",
        "maxTrialCount": 20,
        "parallelTrialCount": 2,
        "studySpec": {
            "metrics": [{"metricId": "loss", "goal": "MINIMIZE"}],
            "parameters": [
                {
                    "parameterId": "learning-rate",
                    "doubleValueSpec": {"minValue": 1e-4, "maxValue": 1e-2},
                    "scaleType": "UNIT_LOG_SCALE",
                }
            ],
            "algorithm": "ALGORITHM_UNSPECIFIED",
            "measurementSelectionType": "LAST_MEASUREMENT",
            "medianAutomatedStoppingSpec": {},
        },
        "trialJobSpec": job_request(find_run("mnist"), **JOB)["jobSpec"],
    }
    assert plan_study(parse("HyperparameterTuningJob", found)).num_parallel == 2


def test_the_metric_and_its_direction_are_those_of_the_best_checkpoint():
    study = request(RATE, best_metric="accuracy", patience=2)["studySpec"]
    assert study["metrics"] == [{"metricId": "accuracy", "goal": "MAXIMIZE"}]
    assert study["measurementSelectionType"] == "BEST_MEASUREMENT"
    study = request(RATE, best_metric="own:max")["studySpec"]
    assert study["metrics"] == [{"metricId": "own", "goal": "MAXIMIZE"}]
    with pytest.raises(ConfigError, match="own:max or own:min"):
        request(RATE, best_metric="own")


def test_a_trial_by_folds_is_chosen_by_the_mean_over_all_of_them():
    found = with_folds(request(RATE, patience=2), 5)
    without = request(RATE, patience=2)
    assert found["studySpec"]["measurementSelectionType"] == "LAST_MEASUREMENT"
    container, other = (
        job["trialJobSpec"]["workerPoolSpecs"][0]["containerSpec"] for job in (found, without)
    )
    assert container["command"] == ["python", "-m", "components.evaluate.fold_trial", "--folds=5"]
    assert container["args"] == other["args"]
    assert with_folds(request(RATE), 0) == request(RATE)
    assert plan_study(parse("HyperparameterTuningJob", found)).metric == "loss"


def manifest_in(folder, num_rows):
    folder.mkdir(exist_ok=True)
    splits = {"train": num_rows - 20, "eval": 10, "test": 10}
    numbers = iter(range(1, num_rows + 1))
    (folder / "manifest.json").write_text(
        json.dumps(
            {
                "splits": {
                    name: {
                        "num_examples": size,
                        "shards": [{"keys": "".join(f"{next(numbers):016x}" for _ in range(size))}],
                    }
                    for name, size in splits.items()
                }
            }
        )
    )
    return str(folder)


def test_trials_have_the_folds_of_the_gate(tmp_path):
    config = find_run("mnist").replace(cluster=ClusterSpec())
    asked = config.replace(gate={"folds": 3})
    few, many = (manifest_in(tmp_path / str(size), size) for size in (100, 600))
    assert count_folds(config, few) == 5
    assert count_folds(config, many) == 0
    assert count_folds(asked, many) == 3
    assert count_folds(config.replace(gate={"folds": 0}), few) == 0
    assert count_folds(config, "gs://bucket/examples") == 0
    assert count_folds(asked, "gs://bucket/examples") == 3
    workers = ClusterSpec(strategy="multi_worker_mirrored", workers=2)
    assert count_folds(asked.replace(cluster=workers), few) == 0


def test_folds_that_the_rows_cannot_be_dealt_into_are_refused_before_the_job(tmp_path):
    mnist = find_run("mnist")
    config = mnist.replace(cluster=ClusterSpec(), gate={"folds": 20})
    with pytest.raises(ConfigError, match=r"gate\.folds is 20, but 30 rows"):
        count_folds(config, manifest_in(tmp_path, 30))


def test_the_table_says_that_folds_have_chosen():
    job = tuning_job(*TRIALS)
    job["trialJobSpec"] = with_folds(request(RATE), 5)["trialJobSpec"]
    facts = tuning_facts(job)
    assert facts["folds"] == 5
    assert "loss by 5 folds" in trials_table(facts).headings
    chosen = "chosen by the lowest loss by 5 folds, 0.2500, of train and eval"
    assert chosen in best_line(facts)


def test_a_varied_setting_and_what_it_replaces_are_no_fixed_arguments():
    spec = request("train.steps=10..20")["trialJobSpec"]
    args = spec["workerPoolSpecs"][0]["containerSpec"]["args"]
    names = {argument.partition("=")[0] for argument in args}
    assert not {"--steps", "--epochs"} & names
    assert "--batch-size" in names


def trial(number, value, *, rate=0.001, units="16"):
    failed = {"state": "INFEASIBLE", "infeasibleReason": "broken\nwhy"}
    done = value is not None and {
        "state": "SUCCEEDED",
        "finalMeasurement": {"metrics": [{"metricId": "loss", "value": value}]},
        "measurements": [
            {"stepCount": str(step), "metrics": [{"metricId": "loss", "value": value / step}]}
            for step in (1, 2)
        ],
        "endTime": "2026-11-26T12:00:03Z",
    }
    return {
        "id": str(number),
        "parameters": [
            {"parameterId": "learning-rate", "value": rate},
            {"parameterId": "batch-size", "value": units},
            {"parameterId": "epochs", "value": 3.0},
        ],
        "startTime": "2026-11-26T12:00:01Z",
        **(done or failed),
    }


def tuning_job(*trials):
    made = request(RATE, "train.batch_size=16,64", "train.epochs=1..3")
    return {
        **made,
        "name": "projects/p/locations/l/hyperparameterTuningJobs/5",
        "state": "JOB_STATE_SUCCEEDED",
        "trials": list(trials),
    }


TRIALS = [
    trial(1, 0.5),
    trial(2, 0.25, rate=0.002),
    trial(3, None),
    trial(4, 0.75, units="64"),
    trial(5, 0.7, units="64", rate=0.01),
]


def test_trials_are_listed_from_the_best_and_the_choice_is_explained():
    facts = tuning_facts(tuning_job(*TRIALS))
    rows = trials_table(facts).rows
    assert [row[0] for row in rows] == ["2", "1", "5", "4", "3"]
    assert rows[0][2:] == ("0.2500", "0.002", "16", "3", "2.0", "")
    assert rows[-1][-1] == "broken"
    assert best_line(facts) == (
        "best: trial 2 with train.learning_rate=0.002 train.batch_size=16 train.epochs=3; chosen "
        "by the lowest eval loss, 0.2500, of each trial's last evaluation"
    )


def test_the_best_trials_settings_are_those_of_a_run():
    flags = winner_flags(tuning_job(*TRIALS), workload="mnist")
    config = with_flags(find_run("mnist"), flags)
    assert config.train.learning_rate == 0.002
    assert config.train.batch_size == 16
    assert config.train.epochs == 3


@pytest.mark.parametrize(
    ("trials", "workload", "message"),
    [([], "mnist", "no trial of n has succeeded"), (TRIALS, "taxi", "tuned mnist, not taxi")],
)
def test_a_tuning_job_that_a_run_cannot_use(trials, workload, message):
    with pytest.raises(ResourceError, match=message):
        winner_flags(tuning_job(*trials), workload=workload)


def test_a_value_that_is_no_number_is_null():
    diverged = trial(1, 0.5)
    diverged["measurements"][0]["metrics"][0]["value"] = "NaN"
    facts = tuning_facts(tuning_job(diverged))
    assert facts["trials"][0]["curve"] == [[1, None], [2, 0.25]]
