"""`python -m components.prepare_examples`."""

import sys

from components.prepare_examples.cli import main

sys.exit(main())
