"""`trainyard prune`: remove old runs of this machine."""

import argparse
from typing import Any

from components.vertex.api import connect
from pipelines.command.durations import seconds
from pipelines.command.models_endpoints import print_table
from pipelines.command.target_options import add_target, service_of, target_of
from pipelines.runs.removal.files import RunFiles
from pipelines.runs.removal.prune import MEGABYTE, decide, prune, prune_table
from pipelines.target.places import TargetError

DESCRIPTION = """\
Removes old runs of this machine: their folders, records, training jobs, and the entries of the step
cache that point there (a repeated run then does these steps anew). Model versions stay: they are
copies. Also stay: runs that go on, the newest ones, the one that `latest` points to, and runs whose
files a run that stays has taken from the cache. Jobs of `trainyard jobs submit` and downloaded data
are left alone.

  trainyard prune --keep 10 --dry-run
  trainyard prune --keep 10 --older-than 30d
"""


def add_prune(commands: Any) -> None:
    """Adds `prune`."""
    parser = commands.add_parser(
        "prune",
        help="remove old runs of this machine",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--keep", type=_count, default=10, metavar="N", help="the newest N runs; default: 10"
    )
    parser.add_argument(
        "--older-than",
        type=seconds,
        default=0,
        metavar="TIME",
        help="only runs that ended longer ago than this, as 30d or 12h",
    )
    parser.add_argument("--dry-run", action="store_true", help="only print what would go")
    add_target(parser)
    parser.set_defaults(command=_prune)


def _prune(arguments: argparse.Namespace) -> int:
    if arguments.on == "vertex":
        raise TargetError(
            "prune is for this machine; in the cloud give the bucket a lifecycle rule, and delete "
            "runs with trainyard runs delete"
        )
    target = target_of(arguments)
    with service_of(arguments, target):
        files = RunFiles(connect(target.project, target.location), target.state_dir)
        decisions = decide(files, keep=arguments.keep, older_than_seconds=arguments.older_than)
        if not arguments.dry_run:
            decisions = list(prune(files, decisions))
    print_table(prune_table(decisions))
    gone = [one for one in decisions if not one.reason]
    verb = "would go" if arguments.dry_run else "removed"
    space = sum(one.num_bytes for one in gone) / MEGABYTE
    print(f"{verb}: {len(gone)} of {len(decisions)} runs, {space:,.1f} MB")
    return 0


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not allowed; give a whole number, 0 or more")
    return int(text)
