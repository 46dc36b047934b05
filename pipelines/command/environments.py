"""`trainyard environments`: what the local service keeps for steps that ask for packages."""

import argparse
import subprocess
import sys
from typing import Any

# The service's own command: it alone knows where they are and which are in use.
ENVIRONMENTS = [sys.executable, "-m", "vertex_local.cli", "environments"]
DESCRIPTION = """\
On this machine a step that asks for packages (packages_to_install of a component, or a kfp other
than the one installed here) runs in a Python environment with exactly these, built once and kept
for all steps that ask for the same. `vertex-local environments --help` tells more.

  trainyard environments list               size, last use and what was asked for
  trainyard environments list --packages    and all that is installed in them
  trainyard environments clear [KEY ...]    remove those named, or all that no step is using
"""


def add_environments(commands: Any) -> None:
    """Add the command to those of `trainyard`."""
    parser = commands.add_parser(
        "environments",
        help="list or clear the Python environments of steps that ask for packages",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    actions = parser.add_subparsers(dest="action", required=True, metavar="list | clear")
    listing = actions.add_parser("list", help="list them, the last used first")
    listing.add_argument("--packages", action="store_true", help="show all that is installed")
    clearing = actions.add_parser("clear", help="remove them; those in use stay")
    clearing.add_argument("keys", nargs="*", metavar="KEY", help="as listed; default: all")
    parser.set_defaults(command=_environments, packages=False, keys=[])


def _environments(arguments: argparse.Namespace) -> int:
    flags = ["--packages"] if arguments.packages else []
    command = [*ENVIRONMENTS, arguments.action, *flags, *arguments.keys]
    return subprocess.run(command, check=False).returncode
