"""Checks of tuning jobs, and the ends of trials and studies."""

import json
import math

import pytest

from vertex_local.api import protos
from vertex_local.errors import ApiError
from vertex_local.tests.support.jobs import pool
from vertex_local.tuning import record

pytestmark = pytest.mark.fast

POOL = pool("", command=["python"], args=["x"])
RATE = {
    "parameterId": "learning-rate",
    "doubleValueSpec": {"minValue": 1e-4, "maxValue": 0.1},
    "scaleType": "UNIT_LOG_SCALE",
}


def tuning_job(*parameters, study=None, **fields):
    body = {
        "displayName": "tune",
        "maxTrialCount": 4,
        "parallelTrialCount": 2,
        "studySpec": {
            "metrics": [{"metricId": "auc", "goal": "MAXIMIZE"}],
            "parameters": list(parameters) or [RATE],
            **(study or {}),
        },
        "trialJobSpec": {"workerPoolSpecs": [POOL, POOL]},
        **fields,
    }
    return protos.parse("HyperparameterTuningJob", body)


def plan(*parameters, **fields):
    return record.plan_study(tuning_job(*parameters, **fields))


def choice(*values):
    return {"parameterId": "c", "categoricalValueSpec": {"values": list(values)}}


def test_the_plan_of_a_study():
    found = plan(
        RATE,
        {"parameterId": "units", "integerValueSpec": {"minValue": 0, "maxValue": 64}},
        {"parameterId": "batch", "discreteValueSpec": {"values": [16, 64]}},
        choice("a", "b"),
        study={"measurementSelectionType": "BEST_MEASUREMENT", "medianAutomatedStoppingSpec": {}},
    )
    rate, units, batch, letter = found.parameters
    assert (rate.low, rate.high, rate.is_log) == (1e-4, 0.1, True)
    assert (units.low, units.high, units.is_integer) == (0, 64, True)
    assert (batch.values, batch.is_ordered) == ((16, 64), True)
    assert (letter.values, letter.is_ordered) == (("a", "b"), False)
    assert (found.selects_best, found.stops_early, found.is_maximized) == (True, True, True)


CONDITIONAL = {"parameterSpec": choice("x"), "parentCategoricalValues": {"values": ["a"]}}
WRONG = {
    "log of 0": (
        {"study": {"parameters": [{**RATE, "doubleValueSpec": {"maxValue": 1}}]}},
        "from 0 to 1; .* above 0 with UNIT_LOG_SCALE",
    ),
    "grid of doubles": ({"study": {"algorithm": "GRID_SEARCH"}}, "discreteValueSpec"),
}
MISSING = {
    "conditional parameters": (
        {"parameters": [{**choice("a"), "conditionalParameterSpecs": [CONDITIONAL]}]},
        "conditionalParameterSpecs",
    ),
    "reverse log": ({"parameters": [{**RATE, "scaleType": "UNIT_REVERSE_LOG_SCALE"}]}, "REVERSE"),
    "decay curve": ({"decayCurveStoppingSpec": {}}, "decayCurveStoppingSpec"),
    "elapsed": ({"medianAutomatedStoppingSpec": {"useElapsedDuration": True}}, "useElapsed"),
    "two metrics": (
        {"metrics": [{"metricId": name, "goal": "MINIMIZE"} for name in "ab"]},
        r"metrics\[1\]",
    ),
}


@pytest.mark.parametrize(("fields", "message"), WRONG.values(), ids=WRONG)
def test_a_wrong_field_is_named(fields, message):
    with pytest.raises(ApiError, match=message) as error:
        plan(**fields)
    assert error.value.status == "INVALID_ARGUMENT"


@pytest.mark.parametrize(("study", "message"), MISSING.values(), ids=MISSING)
def test_what_is_not_implemented_is_said(study, message):
    with pytest.raises(ApiError, match=message) as error:
        plan(study=study)
    assert error.value.status == "UNIMPLEMENTED"


def test_each_container_of_a_trial_gets_the_parameters_and_its_own_output_folder():
    job = tuning_job()
    job["trialJobSpec"]["baseOutputDirectory"] = {"outputUriPrefix": "/out/"}
    before = json.dumps(job)
    spec = record.trial_job_spec(job, "3", {"lr": 0.001, "units": 64.0, "kind": "a b"})
    for each in spec["workerPoolSpecs"]:
        assert each["containerSpec"]["args"] == ["x", "--lr=0.001", "--units=64", "--kind=a b"]
    assert spec["baseOutputDirectory"]["outputUriPrefix"] == "/out/3"
    assert json.dumps(job) == before


def report(step, value, seconds=5.0):
    """Return a line as cloudml-hypertune writes it."""
    fields = {"timestamp": seconds, "trial": "1", "auc": str(value), "global_step": str(step)}
    return json.dumps({**fields, "checkpoint_path": ""}) + "\n"


def trial(*values, state="ACTIVE"):
    text = "".join(report(10 * (index + 1), value) for index, value in enumerate(values))
    measurements = record.read_measurements(text, "auc", started="1970-01-01T00:00:01Z")
    return {"id": "1", "state": state, "measurements": measurements}


def test_the_file_of_hypertune_is_read_but_for_a_line_that_is_being_written():
    text = report(10, 0.5) + report(20, 0.75, 6.5) + '{"timestamp": 7, "au'
    first, second = record.read_measurements(text, "auc", started="1970-01-01T00:00:01Z")
    assert record.value_of(first) == 0.5
    assert second == {
        "stepCount": "20",
        "elapsedDuration": "5.500s",
        "metrics": [{"metricId": "auc", "value": 0.75}],
    }
    assert not record.read_measurements(text, "loss", started="1970-01-01T00:00:01Z")


def test_a_repeated_trial_keeps_its_earlier_measurements():
    one = trial(0.1, 0.2, 0.3)
    record.add_measurements(one, trial(0.1, 0.9, 0.95)["measurements"][1:])
    assert [record.value_of(measured) for measured in one["measurements"]] == [0.1, 0.9, 0.95]


@pytest.mark.parametrize(
    ("values", "selection", "final"),
    [
        ((0.5, 0.9, 0.7), "LAST_MEASUREMENT", 0.7),
        ((0.5, 0.9, 0.7), "BEST_MEASUREMENT", 0.9),
        ((0.5, math.nan), "BEST_MEASUREMENT", 0.5),
        ((0.5, math.nan), "LAST_MEASUREMENT", None),
        ((), "LAST_MEASUREMENT", None),
    ],
)
def test_the_measurement_of_an_ended_trial(values, selection, final):
    one = trial(*values)
    study = plan(study={"measurementSelectionType": selection})
    record.end_trial(one, study, problem="", ended="1970-01-01T00:00:09Z")
    if final is None:
        assert one["state"] == "INFEASIBLE"
        assert "no number as auc" in one["infeasibleReason"]
        assert "report_hyperparameter_tuning_metric" in one["infeasibleReason"]
    else:
        assert one["state"] == "SUCCEEDED"
        assert record.value_of(one["finalMeasurement"]) == final


def test_a_trial_below_the_median_of_the_others_means_is_stopped():
    study = plan(study={"medianAutomatedStoppingSpec": {}})
    others = [trial(0.4, 0.6, 0.9, state="SUCCEEDED"), trial(0.8, 0.8, 0.8, state="SUCCEEDED")]
    # Up to step 20 their means are 0.5 and 0.8: the median is 0.65.
    assert record.is_below_median(trial(0.1, 0.64), others, study)
    assert not record.is_below_median(trial(0.7, 0.1), others, study)
    assert not record.is_below_median(trial(math.nan), others, study)
    assert not record.is_below_median(trial(0.1), [], study)


@pytest.mark.parametrize(
    ("states", "fields", "end"),
    [
        ("SSSS", {}, "succeeded"),
        ("SSSA", {}, None),
        ("SIII", {}, "succeeded"),
        ("SII", {"maxFailedTrialCount": 2}, "failed"),
        ("III", {}, "failed"),
        ("IIS", {}, None),
        ("II", {"maxTrialCount": 2}, "failed"),
    ],
)
def test_the_end_of_a_study(states, fields, end):
    names = {"S": "SUCCEEDED", "I": "INFEASIBLE", "A": "ACTIVE"}
    trials = [
        {"id": str(number), "state": names[letter], "infeasibleReason": "why"}
        for number, letter in enumerate(states, start=1)
    ]
    ended = record.outcome(trials, plan(**fields), is_exhausted=False)
    assert (ended and ended["state"]) == end
