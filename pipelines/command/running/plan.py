"""Plan of a run before it is sent: printed by `trainyard plan`, kept below --max-cost."""

import argparse
import logging
from collections.abc import Callable

from components.plan_training.prices import PRICES, cluster_cost, read_prices, resource_note
from components.plan_training.shape import Shape
from components.shared.vertex.errors import VertexError
from pipelines.command.actions import print_json, print_table
from pipelines.config.run_config import RunConfig
from pipelines.places.local_service import runs_on
from pipelines.places.target import Target
from pipelines.plan.run_plan import RunPlan, facts_of, plan_json, plan_of, tasks_of
from pipelines.plan.run_plan import dollars as in_dollars
from pipelines.runs.submit import Submission
from trainer.errors import ConfigError

logger = logging.getLogger(__name__)


def show_plan(arguments: argparse.Namespace, submission: Submission, target: Target) -> int:
    """Print the plan of a run; return the exit code."""
    plan = planned(arguments, submission, target)
    if arguments.json:
        return print_json(plan_json(plan, location=target.location))
    print_table(tasks_of(plan))
    print()
    for line in facts_of(plan, location=target.location, config=submission.config):
        print(line)
    return 0


def planned(arguments: argparse.Namespace, submission: Submission, target: Target) -> RunPlan:
    """Return the plan of a run, without the earlier runs if these cannot be read."""
    has_cache = arguments.on == "local" and runs_on(target.state_dir / "vertex")
    state_dir = target.state_dir if has_cache else None
    from google.auth.exceptions import GoogleAuthError

    try:
        api = target.connect()
        return plan_of(api, submission, state_dir=state_dir)
    except (VertexError, GoogleAuthError) as error:
        logger.warning("nothing is known of earlier runs: %s", error)
        return plan_of(None, submission, state_dir=state_dir)


def within_cost(
    build: Callable[[RunConfig], Submission],
    config: RunConfig | None,
    *,
    limit: float,
    plan: Callable[[Submission], RunPlan],
) -> Submission:
    """Return a run whose job has a time limit, so that its training costs at most `limit` dollars.

    Vertex AI counts the time of the whole job, restarts included. A training that is in the cache
    with the time limit of the settings stays there.

    Raises:
        ConfigError: an earlier training with these settings cost more, or a price is unknown.
    """
    if config is None:
        raise ConfigError("--max-cost: the price of another repository's pipeline is not known")
    if note := resource_note(config.cluster):
        raise ConfigError(f"--max-cost: {note}")
    submission = build(config)
    if not plan(submission).price:
        return submission
    cluster = config.cluster.replace(timeout_seconds=_seconds_for(config.cluster, limit))
    submission = build(config.replace(cluster=cluster))
    price = plan(submission).price
    if price and price.expected is not None and price.expected > limit:
        raise ConfigError(
            f"--max-cost is {in_dollars(limit)}, but the training costs about"
            f" {in_dollars(price.expected)} on Vertex AI, as in an earlier run"
            f" ({price.kind}, {price.table}); give more, or leave --max-cost out"
        )
    return submission


def _seconds_for(cluster: Shape, limit: float) -> int:
    """Return the time limit of a training that costs at most `limit` dollars."""
    cost = cluster_cost(cluster, read_prices(PRICES))
    if cost.unknown:
        raise ConfigError(
            f"--max-cost: {PRICES} has no price of {', '.join(cost.unknown)}; add it there"
        )
    seconds = int(limit / cost.until(1, is_spot=cluster.spot))
    if not seconds:
        raise ConfigError(f"--max-cost is {in_dollars(limit)}, which pays for less than a second")
    return min(seconds, cluster.timeout_seconds)
