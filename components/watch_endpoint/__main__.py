"""`python -m components.watch_endpoint`."""

import sys

from components.watch_endpoint.cli import main

sys.exit(main())
