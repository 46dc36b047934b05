"""Parameters of trials: random, on a grid, and Bayesian."""

import pytest

from vertex_local.errors import ApiError
from vertex_local.tuning import search
from vertex_local.tuning.record import Parameter, StudyPlan

pytestmark = pytest.mark.fast

RATE = Parameter(id="rate", low=1e-4, high=1, is_log=True)
UNITS = Parameter(id="units", low=1, high=3, is_integer=True)
BATCH = Parameter(id="batch", values=(16.0, 64.0, 256.0), is_ordered=True)
KIND = Parameter(id="kind", values=("a", "b"))
ALL = (RATE, UNITS, BATCH, KIND)


def plan(*parameters, algorithm="RANDOM_SEARCH"):
    return StudyPlan(
        parameters=parameters,
        metric="auc",
        is_maximized=True,
        algorithm=algorithm,
        selects_best=False,
        stops_early=False,
        num_trials=100,
        num_parallel=1,
        max_failed=0,
    )


def trial(parameters, value=None):
    fields = {"state": "ACTIVE"}
    if value is not None:
        measurement = {"metrics": [{"metricId": "auc", "value": value}]}
        fields = {"state": "SUCCEEDED", "finalMeasurement": measurement}
    listed = [{"parameterId": name, "value": one} for name, one in parameters.items()]
    return {"parameters": listed, **fields}


def suggested(study, count, value=lambda point: 0.5, seed="s"):
    trials = []
    for _ in range(count):
        point = search.suggest(study, trials, seed=seed)
        trials.append(trial(point, value(point)))
    return [{one["parameterId"]: one["value"] for one in made["parameters"]} for made in trials]


@pytest.mark.parametrize("algorithm", ["RANDOM_SEARCH", "ALGORITHM_UNSPECIFIED"])
def test_points_are_in_the_space_and_the_same_for_the_same_seed(algorithm):
    study = plan(*ALL, algorithm=algorithm)
    points = suggested(study, 14)
    assert all(1e-4 <= point["rate"] <= 1 for point in points)
    assert {type(point["units"]) for point in points} == {int}
    assert {point["units"] for point in points} <= {1, 2, 3}
    assert {point["batch"] for point in points} <= {16.0, 64.0, 256.0}
    assert {point["kind"] for point in points} == {"a", "b"}
    assert points == suggested(study, 14)
    assert points[0] != suggested(study, 1, seed="other")[0]


def test_a_log_scale_is_even_in_its_decades():
    rates = [point["rate"] for point in suggested(plan(RATE), 400)]
    assert 60 < sum(rate < 1e-3 for rate in rates) < 140  # a fourth of 400


def test_a_grid_has_each_point_once_and_an_end():
    study = plan(UNITS, KIND, algorithm="GRID_SEARCH")
    points = suggested(study, 6)
    assert len({tuple(point.values()) for point in points}) == 6
    assert search.suggest(study, [trial(point) for point in points], seed="s") is None


def test_bayesian_search_comes_closer_than_random_search():
    def value(point):
        return -abs(point["rate"] - 0.02)

    best = {
        algorithm: max(map(value, suggested(plan(RATE, algorithm=algorithm), 24, value)))
        for algorithm in ("RANDOM_SEARCH", "ALGORITHM_UNSPECIFIED")
    }
    assert best["ALGORITHM_UNSPECIFIED"] > best["RANDOM_SEARCH"]


def test_running_trials_have_a_part_in_bayesian_search():
    study = plan(RATE, algorithm="ALGORITHM_UNSPECIFIED")
    done = [trial(point, 0.1 * number) for number, point in enumerate(suggested(study, 12))]
    alone = search.suggest(study, done, seed="s")
    beside = search.suggest(study, [*done, trial(alone)], seed="s")
    assert beside != alone


def test_without_optuna_bayesian_search_says_how_to_install_it(monkeypatch):
    monkeypatch.setattr(search.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ApiError, match="pip install optuna"):
        search.require_optuna(plan(RATE, algorithm="ALGORITHM_UNSPECIFIED"))
    search.require_optuna(plan(RATE))
