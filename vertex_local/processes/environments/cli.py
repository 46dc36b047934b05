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

TEXT = "list or clear the Python environments of steps that ask for packages"
DESCRIPTION = f"""\
A step never writes into the environment of the service. If it asks for packages
(packages_to_install, or the kfp that compiled it, where that is another), it runs in an environment
with exactly these, without those of the service. It is built once, by pip, and kept for all steps
and services of yours that ask for the same with the same kfp and Python; the step's log says so.
What a step's own code installs goes on top, for that step alone, and vanishes with it.

They are in {FOLDER_VARIABLE} (default: ~/.cache/vertex-local/environments). Above
{LIMIT_VARIABLE} gigabytes (default: {DEFAULT_LIMIT_GB:g}) the least recently used go; one
that a step is using stays. `pandas` without a version stays at the one that was the newest when it
was built: clear it to get a newer one.
"""
EXAMPLES = """\
examples:
  vertex-local environments list               size, last use and what was asked for
  vertex-local environments list --packages    and all that was installed
  vertex-local environments clear 3f0c23a99b1e
  vertex-local environments clear              all that no step is using
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
    text = "list them, the last used first"
    listing = actions.add_parser("list", help=text, description=text)
    listing.add_argument("--packages", action="store_true", help="show all that is installed")
    text = "remove them; those in use stay"
    clearing = actions.add_parser("clear", help=text, description=text)
    clearing.add_argument("keys", nargs="*", metavar="KEY", help="as listed; default: all")


def run(arguments: argparse.Namespace) -> int:
    """Carry the command out; return the exit code."""
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
        print(f"vertex-local: no environment {unknown[0]!r}; there are: {allowed}", file=sys.stderr)
        return USAGE_ERROR
    for key in keys or known:
        one = known[key]
        outcome = "removed" if store.remove(key) else "kept, a step is using it:"
        print(f"{outcome} {key} ({_size(one.size_bytes)}): {', '.join(one.requirements)}")
    if not keys:
        store.tidy()  # what is half built
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
