"""`vertex-local serve` that restarts prediction servers without the patience of users."""

import sys

from vertex_local import cli
from vertex_local.processes import restarts

if __name__ == "__main__":
    restarts.FIRST_DELAY_SECONDS = 0.05
    sys.exit(cli.main())
