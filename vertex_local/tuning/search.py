"""Parameters of the next trial: a pure function of the study, its trials and a seed."""

import importlib.util
import math
import random
from typing import TYPE_CHECKING, Any

from vertex_local import Json
from vertex_local.errors import failed_precondition
from vertex_local.tuning.record import ACTIVE, BAYESIAN, GRID, Parameter, StudyPlan, value_of

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution


def require_optuna(plan: StudyPlan) -> None:
    """Check that a study's algorithm can be run.

    Raises:
        ApiError: FAILED_PRECONDITION, with the command that installs Optuna.
    """
    if plan.algorithm == BAYESIAN and importlib.util.find_spec("optuna") is None:
        raise failed_precondition(
            "studySpec.algorithm ALGORITHM_UNSPECIFIED, Bayesian optimization, needs Optuna: "
            "pip install optuna, or use RANDOM_SEARCH or GRID_SEARCH."
        )


def suggest(plan: StudyPlan, trials: list[Json], *, seed: str) -> dict[str, Any] | None:
    """Return the parameters of the next trial by their ids; None if the grid is exhausted."""
    if plan.algorithm == GRID:
        return _grid_point(plan, len(trials))
    generator = random.Random(f"{seed}/{len(trials)}")
    if plan.algorithm == BAYESIAN:
        return _bayesian(plan, trials, seed=generator.randrange(2**32))
    return {one.id: _random_value(one, generator) for one in plan.parameters}


def _grid_point(plan: StudyPlan, index: int) -> dict[str, Any] | None:
    """Return a point of the grid by its number, of which each parameter has a digit."""
    point = {}
    for one in plan.parameters:
        values = one.values or range(int(one.low), int(one.high) + 1)
        index, digit = divmod(index, len(values))
        point[one.id] = values[digit]
    return None if index else point


def _random_value(parameter: Parameter, generator: random.Random) -> Any:
    if parameter.values:
        return generator.choice(parameter.values)
    # Each whole number is as likely as another: the ends have half an interval on each side.
    margin = 0.5 if parameter.is_integer else 0.0
    low, high = parameter.low - margin, parameter.high + margin
    if parameter.is_log:
        value = math.exp(generator.uniform(math.log(low), math.log(high)))
    else:
        value = generator.uniform(low, high)
    value = min(max(value, parameter.low), parameter.high)
    return round(value) if parameter.is_integer else value


def _bayesian(plan: StudyPlan, trials: list[Json], *, seed: int) -> dict[str, Any]:
    """Return what Optuna's TPE suggests after these trials; the first ten are random."""
    import optuna  # 0.6 s, which other studies save

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    distributions = {one.id: _distribution(one) for one in plan.parameters}
    study = optuna.create_study(
        direction="maximize" if plan.is_maximized else "minimize",
        # constant_liar: keep away from the points of trials that still run.
        sampler=optuna.samplers.TPESampler(seed=seed, constant_liar=True),
    )
    for trial in trials:
        is_active = trial["state"] in ACTIVE
        if is_active or "finalMeasurement" in trial:
            states = optuna.trial.TrialState
            study.add_trial(
                optuna.trial.create_trial(
                    state=states.RUNNING if is_active else states.COMPLETE,
                    params=_internal(plan, trial),
                    distributions=distributions,
                    value=None if is_active else value_of(trial["finalMeasurement"]),
                )
            )
    suggested = study.ask(distributions).params
    return {
        one.id: one.values[suggested[one.id]] if one.is_ordered else suggested[one.id]
        for one in plan.parameters
    }


def _distribution(parameter: Parameter) -> "BaseDistribution":
    """Return Optuna's form of a parameter; an ordered value is its index."""
    from optuna import distributions

    if parameter.is_ordered:
        return distributions.IntDistribution(0, len(parameter.values) - 1)
    if parameter.values:
        return distributions.CategoricalDistribution(parameter.values)
    if parameter.is_integer:
        low, high = int(parameter.low), int(parameter.high)
        return distributions.IntDistribution(low, high, log=parameter.is_log)
    return distributions.FloatDistribution(parameter.low, parameter.high, log=parameter.is_log)


def _internal(plan: StudyPlan, trial: Json) -> dict[str, Any]:
    values = {one["parameterId"]: one["value"] for one in trial["parameters"]}
    return {
        one.id: one.values.index(values[one.id]) if one.is_ordered else values[one.id]
        for one in plan.parameters
    }
