"""`vertex-local environments list | clear`."""

import argparse
import sys
import time
from typing import Any

from vertex_local.processes.environments.store import (
    DEFAULT_LIMIT_GB,
    FOLDER_VARIABLE,
    LIMIT_VARIABLE,
    Environment,
    Store,
    StoreError,
)

TEXT = "list or clear the Python environments of steps with packages"
DESCRIPTION = f"""\
A step never writes to the environment of the service. A step with packages (packages_to_install,
or the kfp that compiled it, if that is another version) runs in an environment with exactly these,
without those of the service. pip builds it once, as the step's log shows; all your steps and
services with the same packages, kfp and Python share it. Packages that a step's own code installs
are added for that step alone, and removed with it.

Environments are kept in {FOLDER_VARIABLE} (default: ~/.cache/vertex-local/environments).
Above {LIMIT_VARIABLE} gigabytes (default: {DEFAULT_LIMIT_GB:g}) the least recently used are
removed, except those in use. `pandas` without a version is the newest version at the time of the
build: clear the environment to get a newer one.
"""
EXAMPLES = """\
examples:
  vertex-local environments list               size, last use and packages requested
  vertex-local environments list --packages    and all packages installed
  vertex-local environments clear 3f0c23a99b1e
  vertex-local environments clear              all that no step uses
"""
USAGE_ERROR = 2
UNITS = ((86400, "day"), (3600, "hour"), (60, "minute"), (1, "second"))


def add_environments(commands: Any) -> None:
    """Add the command to those of `vertex-local`."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = commands.add_parser(
        "environments", help=TEXT, description=DESCRIPTION, epilog=EXAMPLES, formatter_class=raw
    )
    actions = parser.add_subparsers(dest="action", required=True, metavar="list | clear")
    text = "list environments, the last used first"
    listing = actions.add_parser("list", help=text, description=text)
    listing.add_argument("--packages", action="store_true", help="also list all installed packages")
    text = "remove environments, except those in use"
    clearing = actions.add_parser("clear", help=text, description=text)
    clearing.add_argument("keys", nargs="*", metavar="KEY", help="as listed; default: all")


def run(arguments: argparse.Namespace) -> int:
    """Run the command; return the exit code."""
    try:
        store = Store.of_user()
        if arguments.action == "list":
            return _list(store, has_packages=arguments.packages)
        return _clear(store, arguments.keys)
    except (OSError, StoreError) as error:
        print(f"vertex-local: {error}", file=sys.stderr)
        return USAGE_ERROR


def _list(store: Store, *, has_packages: bool) -> int:
    found = store.environments()
    for one in found:
        print(_line(one))
        if has_packages:
            print("".join(f"    {package}\n" for package in one.packages), end="")
    total = sum(one.size_bytes for one in found)
    plural = "" if len(found) == 1 else "s"
    print(
        f"{len(found)} environment{plural}, {_size(total)} of {_size(store.limit_bytes)}, "
        f"in {store.folder}"
    )
    return 0


def _clear(store: Store, keys: list[str]) -> int:
    known = {one.key: one for one in store.environments()}
    if unknown := [key for key in keys if key not in known]:
        allowed = ", ".join(known) or "none"
        print(f"vertex-local: no environment {unknown[0]!r}; existing: {allowed}", file=sys.stderr)
        return USAGE_ERROR
    for key in keys or known:
        one = known[key]
        outcome = "removed" if store.remove(key) else "kept, in use by a step:"
        print(f"{outcome} {key} ({_size(one.size_bytes)}): {', '.join(one.requirements)}")
    if not keys:
        store.prune()  # incomplete ones
    if not known:
        print(f"There are no environments in {store.folder}.")
    return 0


def _line(one: Environment) -> str:
    used = "in use" if one.is_in_use else f"used {_ago(time.time() - one.last_used)} ago"
    return f"{one.key}  {_size(one.size_bytes):>9}  {used:<22}  {', '.join(one.requirements)}"


def _ago(seconds: float) -> str:
    for length, name in UNITS:
        if (count := int(seconds // length)) > 0:
            return f"{count} {name}{'' if count == 1 else 's'}"
    return "a moment"


def _size(num_bytes: int) -> str:
    return f"{num_bytes / 1e6:,.0f} MB" if num_bytes < 1e9 else f"{num_bytes / 1e9:,.1f} GB"  # noqa: PLR2004
