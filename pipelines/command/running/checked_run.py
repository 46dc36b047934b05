"""A run of which everything has been checked that can be before anything is sent."""

import argparse
import sys
from dataclasses import dataclass

from pipelines.command.target_options import api_of
from pipelines.config.run_config import RunConfig
from pipelines.jobs.request import with_flags
from pipelines.jobs.tuning import best_line, tuning_facts, winner_flags
from pipelines.package.image import image_of
from pipelines.package.spec import Package, own_image
from pipelines.places.target import Target
from pipelines.projects.runs import find_run
from pipelines.resources.kinds import TUNING
from pipelines.runs.request import new_run_name
from pipelines.runs.submit import (
    Submission,
    check_run_name,
    check_source,
    compile_package,
    config_of,
    configured,
    is_package,
    parameters_of,
    plan_run,
    read_package_of,
    run_prefix,
)
from pipelines.runs.workload_code import with_code


@dataclass(frozen=True, kw_only=True)
class CheckedRun:
    """A run that has been checked: its name, configuration and image."""

    name: str
    workload: str
    """Empty for packages of other pipelines."""
    image: str
    config: RunConfig | None
    """None for packages of other pipelines."""
    package: Package | None
    """None for workloads, which are compiled while the service starts."""


def check_run(arguments: argparse.Namespace, target: Target) -> CheckedRun:
    """Read the run's source and settings, and check them."""
    source, package = arguments.source, None
    options = {"settings": arguments.settings, "cluster": arguments.cluster}
    config: RunConfig | None
    if arguments.tears_down or not is_package(source):
        if not arguments.tears_down:
            check_source(source)
        config = configured(_tuned(arguments, find_run(source)), **options)
        prefix = config.name
    else:
        package = read_package_of(source, image=arguments.image)
        config = config_of(package, **options)
        prefix = run_prefix(package)
    name = arguments.name = arguments.name or new_run_name(prefix)
    check_run_name(name)
    if config:
        parameters_of(config, target)  # checks the settings before the service starts
        uses_image = arguments.on == "vertex" or arguments.containers
        config = with_code(config, target, uses_image=uses_image)
    workload = config.workload if config else ""
    image = arguments.image or (own_image(package) if package else image_of(workload))
    return CheckedRun(name=name, workload=workload, image=image, config=config, package=package)


def _tuned(arguments: argparse.Namespace, config: RunConfig) -> RunConfig:
    """Return the configuration with the settings of the tuning job of `--from`, if there is one."""
    if not arguments.tuning_job:
        return config
    with api_of(arguments) as api:
        job = TUNING.get(api, arguments.tuning_job)
    flags = winner_flags(job, workload=config.name)
    print(f"{job['displayName']}: {best_line(tuning_facts(job))}", file=sys.stderr)
    return with_flags(config, flags)


def compiled(arguments: argparse.Namespace, run: CheckedRun, target: Target) -> Package:
    """Return the package of a run; packages of workloads are kept in the local state."""
    if run.package:
        return run.package
    kept_in = target.state_dir / "packages" if arguments.on == "local" else None
    return compile_package(
        arguments.source, workload=run.workload, image=run.image, kept_in=kept_in
    )


def submission_of(
    arguments: argparse.Namespace, run: CheckedRun, package: Package, target: Target
) -> Submission:
    """Return the request of a run."""
    return plan_run(
        package,
        run=run.name,
        target=target,
        config=run.config,
        settings=arguments.settings,
        use_cache=not arguments.no_cache,
    )
