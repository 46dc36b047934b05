"""`trainyard prune`: remove old runs and their cached outputs."""

import argparse
import math

from pipelines.command.actions import add_json, describe, print_json, print_table
from pipelines.command.parser import count, seconds
from pipelines.command.target_options import add_target, service_of, target_of
from pipelines.runs.removal.code import remove_snapshots, unused_snapshots
from pipelines.runs.removal.files import RunFiles
from pipelines.runs.removal.prune import (
    MEGABYTE,
    OldRun,
    decide,
    named_runs,
    prune,
    prune_table,
)
from trainer import Json
from trainer.errors import ConfigError

PRUNE = """\
Removes old runs of this machine: folders, records, training jobs, and the entries of the step cache
that refer to them (a repeated run then executes these steps again). Model versions are copies and
stay. Also kept: unfinished runs, and runs whose cached files a kept run uses. Not touched: jobs of
`trainyard jobs submit`, and downloaded data.
Copies of the code of your own workloads are removed once no run, job, schedule or model names them.

  trainyard prune --older-than 30d --dry-run    runs that ended longer ago than that
  trainyard prune --max-gb 20                   the oldest, until the others have at most that size
"""


def add_prune(prune_: argparse.ArgumentParser) -> None:
    """Add the arguments of `prune`."""
    describe(prune_, PRUNE)
    prune_.add_argument(
        "--older-than",
        type=seconds,
        default=math.inf,
        metavar="TIME",
        help="remove runs that ended longer ago than this: 30d, 12h",
    )
    prune_.add_argument(
        "--max-gb",
        type=count,
        default=math.inf,
        metavar="N",
        help="remove the oldest runs until the others have at most this size",
    )
    prune_.add_argument(
        "--keep",
        action="append",
        default=[],
        metavar="RUN|MODEL",
        help="keep a run, or those of a model or a version, for `trainyard reproduce`; repeatable",
    )
    prune_.add_argument("--dry-run", action="store_true", help="only print what would be removed")
    add_json(prune_, "the list as JSON")
    add_target(prune_)
    prune_.set_defaults(command=_prune)


def _prune(arguments: argparse.Namespace) -> int:
    if arguments.on == "vertex":
        raise ConfigError(
            "prune is for this machine; in the cloud set a lifecycle rule for the bucket, and "
            "delete runs with trainyard runs delete"
        )
    if math.inf == arguments.older_than == arguments.max_gb:
        raise ConfigError("give --older-than TIME, such as 30d, or --max-gb N, or both")
    target = target_of(arguments)
    with service_of(arguments, target):
        files = RunFiles(target.connect(), target.state_dir)
        runs = decide(
            files,
            older_than_seconds=arguments.older_than,
            max_gb=arguments.max_gb,
            keep=named_runs(files.api, arguments.keep),
        )
        if not arguments.dry_run:
            runs = list(prune(files, runs))
        removed = [run for run in runs if not run.reason]
        without = frozenset(run.name for run in removed)
        snapshots = unused_snapshots(files.api, target.state_dir, without=without)
        if not arguments.dry_run:
            remove_snapshots(target.state_dir, snapshots)
    if arguments.json:
        return print_json([_facts(run) for run in runs])
    print_table(prune_table(runs))
    verb = "would be removed" if arguments.dry_run else "removed"
    megabytes = sum(run.num_bytes for run in removed) / MEGABYTE
    print(f"{verb}: {len(removed)} of {len(runs)} runs, {megabytes:,.1f} MB")
    if snapshots:
        copies = "1 copy" if len(snapshots) == 1 else f"{len(snapshots)} copies"
        print(f"{verb}: {copies} of workloads' code: {', '.join(path.name for path in snapshots)}")
    return 0


def _facts(run: OldRun) -> Json:
    return {"run": run.name, "state": run.state, "bytes": run.num_bytes, "kept": run.reason}
