"""Command line of watch_endpoint: a table of features with distance, limit and verdict."""

import argparse
import sys
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from components.endpoint.watch.options import WatchOptions
from components.endpoint.watch.step import ALERT, Watch, watch
from components.errors import StepError
from components.shared.vertex.api import connect
from components.shared.vertex.errors import VertexError
from trainer.errors import ConfigError

FAILED, USAGE, CHANGED = 1, 2, 3
WIDTH = 200


def main(argv: Sequence[str] | None = None) -> int:
    """Watch an endpoint; return the exit code: 0 nothing has changed, 3 a feature has."""
    arguments = _parser().parse_args(argv)
    try:
        thresholds = dict(map(_threshold, arguments.threshold))
        limits = {} if arguments.last is None else {"last": arguments.last}
        options = WatchOptions(thresholds=thresholds, **limits)
        api = connect(arguments.project, arguments.location)
        result = watch(api, arguments.endpoint, options)
    except ConfigError as error:
        return _fail(error, USAGE)
    except (StepError, VertexError, OSError) as error:
        return _fail(error, FAILED)
    if arguments.json:
        print(result.to_json(), end="")
    else:
        _show(result)
    return CHANGED if result.verdict == ALERT else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m components.endpoint.watch")
    for name in ("project", "location", "endpoint"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--last", type=int)
    parser.add_argument("--threshold", action="append", default=[], metavar="DISTANCE=VALUE")
    parser.add_argument("--json", action="store_true")
    return parser


def _threshold(text: str) -> tuple[str, float]:
    name, _, value = text.partition("=")
    try:
        return name, float(value)
    except ValueError:
        raise ConfigError(
            f"--threshold is {text!r}; write DISTANCE=VALUE, such as psi=0.2"
        ) from None


def _show(result: Watch) -> None:
    console = Console(width=None if sys.stdout.isatty() else WIDTH)
    if result.findings:
        table = Table("FEATURE", "AGAINST", "DISTANCE", "LIMIT", "VERDICT", "CHANGE", box=None)
        for finding in result.findings:
            distance = f"{finding.distance} {finding.value:.3f}"
            row = (
                finding.feature,
                finding.against,
                distance,
                f"{finding.limit:.3g}",
                finding.verdict,
                finding.words,
            )
            table.add_row(*map(Text, row))
        console.print(table)
    for note in result.notes:
        print(f"note: {note}")
    when = f"{result.num_instances:,} instances, {result.first} to {result.last}"
    print(f"{result.endpoint}: {result.verdict} ({when})")
    if result.verdict == ALERT:
        print(result.words)


def _fail(error: Exception, code: int) -> int:
    print(f"error: {error}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
