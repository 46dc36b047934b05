"""`trainyard prune|cache`: remove old runs and cached outputs."""

import argparse

from components.shared.vertex.api import connect
from pipelines.command.actions import add_json, describe, print_json, print_table
from pipelines.command.parser import count, seconds
from pipelines.command.target_options import add_target, service_of, target_of
from pipelines.places.target import check_state_dir
from pipelines.runs.removal.cache import MEGABYTE, cache_table, clear_cache
from pipelines.runs.removal.code import remove_snapshots, unused_snapshots
from pipelines.runs.removal.files import RunFiles
from pipelines.runs.removal.prune import Decision, decide, prune, prune_table
from trainer import Json
from trainer.errors import ConfigError

PRUNE = """\
Removes old runs of this machine: folders, records, training jobs, and the entries of the step cache
that refer to them (a repeated run then executes these steps again). Model versions are copies and
stay. Also kept: unfinished runs, the newest runs, and runs whose cached files a kept run uses. Not
touched: jobs of `trainyard jobs submit`, and downloaded data.
Copies of the code of your own workloads are removed once no run, job, schedule or model names them.

  trainyard prune --keep 10 --dry-run
  trainyard prune --keep 10 --older-than 30d
"""
CACHE = """\
Removes cached outputs of steps on this machine: the next run executes the steps, and caches them
again. The files stay in the folders of the runs that wrote them, until `trainyard prune` or
`trainyard runs delete` removes these. To execute all steps of one run and replace what is cached,
use `trainyard run --no-cache`.

  trainyard cache clear                     of all steps
  trainyard cache clear prepare-examples    of one step, with its name as `runs show` prints it
"""


def add_prune(prune_: argparse.ArgumentParser) -> None:
    """Add the arguments of `prune`."""
    describe(prune_, PRUNE)
    prune_.add_argument(
        "--keep", type=count, default=10, metavar="N", help="keep the newest N runs; default: 10"
    )
    prune_.add_argument(
        "--older-than",
        type=seconds,
        default=0,
        metavar="TIME",
        help="only runs that ended longer ago than this: 30d, 12h",
    )
    prune_.add_argument("--dry-run", action="store_true", help="only print what would be removed")
    add_json(prune_, "the list as JSON")
    add_target(prune_)
    prune_.set_defaults(command=_prune)


def add_cache(cache: argparse.ArgumentParser) -> None:
    """Add the arguments of `cache`."""
    describe(cache, CACHE)
    actions = cache.add_subparsers(required=True, metavar="clear")
    clear = actions.add_parser("clear", help="remove the cached outputs of a step, or of all")
    clear.add_argument("step", nargs="?", default="", metavar="STEP", help="default: all steps")
    add_target(clear)
    clear.set_defaults(command=_clear_cache)


def _clear_cache(arguments: argparse.Namespace) -> None:
    if arguments.on == "vertex":
        raise ConfigError(
            "cache clear is for this machine; in the cloud use --no-cache, or delete the runs"
        )
    target = target_of(arguments)
    check_state_dir(target.state_dir)
    removed = clear_cache(target.state_dir, step=arguments.step)
    if removed:
        print_table(cache_table(removed))
    entries = "1 entry" if len(removed) == 1 else f"{len(removed)} entries"
    megabytes = sum(each.num_bytes for each in removed) / MEGABYTE
    print(
        f"removed: {entries} with {megabytes:,.1f} MB of outputs, which trainyard prune removes "
        "with their runs"
    )


def _prune(arguments: argparse.Namespace) -> int:
    if arguments.on == "vertex":
        raise ConfigError(
            "prune is for this machine; in the cloud set a lifecycle rule for the bucket, and "
            "delete runs with trainyard runs delete"
        )
    target = target_of(arguments)
    with service_of(arguments, target):
        files = RunFiles(connect(target.project, target.location), target.state_dir)
        decisions = decide(files, keep=arguments.keep, older_than_seconds=arguments.older_than)
        if not arguments.dry_run:
            decisions = list(prune(files, decisions))
        without = frozenset(decision.run.name for decision in decisions if not decision.reason)
        snapshots = unused_snapshots(files.api, target.state_dir, without=without)
        if not arguments.dry_run:
            remove_snapshots(target.state_dir, snapshots)
    if arguments.json:
        return print_json([_facts(decision) for decision in decisions])
    print_table(prune_table(decisions))
    removed = [decision for decision in decisions if not decision.reason]
    verb = "would be removed" if arguments.dry_run else "removed"
    megabytes = sum(decision.num_bytes for decision in removed) / MEGABYTE
    print(f"{verb}: {len(removed)} of {len(decisions)} runs, {megabytes:,.1f} MB")
    if snapshots:
        copies = "1 copy" if len(snapshots) == 1 else f"{len(snapshots)} copies"
        print(f"{verb}: {copies} of workloads' code: {', '.join(path.name for path in snapshots)}")
    return 0


def _facts(decision: Decision) -> Json:
    name, state = decision.run.name, decision.run.state
    return {"run": name, "state": state, "bytes": decision.num_bytes, "kept": decision.reason}
