"""`python -m components.endpoint.watch`."""

import sys

from components.endpoint.watch.cli import main

sys.exit(main())
