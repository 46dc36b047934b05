"""Program that watches an endpoint: PROJECT LOCATION ENDPOINT OPTIONS; writes the result, JSON."""

import contextlib
import sys
from collections.abc import Sequence

from components.endpoint.watch.options import WatchOptions
from components.endpoint.watch.step import ALERT, watch
from components.errors import StepError
from components.shared.vertex.api import connect
from components.shared.vertex.errors import VertexError
from trainer.errors import ConfigError

FAILED, USAGE, CHANGED = 1, 2, 3


def main(argv: Sequence[str]) -> int:
    """Watch an endpoint; return the exit code: 0 nothing has changed, 3 a feature has."""
    project, location, endpoint, options = argv
    try:
        with contextlib.redirect_stdout(sys.stderr):  # of a user's workload
            api = connect(project, location)
            result = watch(api, endpoint, WatchOptions.from_json(options))
    except (ConfigError, StepError, VertexError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return USAGE if isinstance(error, ConfigError) else FAILED
    print(result.to_json(), end="")
    return CHANGED if result.verdict == ALERT else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
