"""`python -m components.prepare_examples`."""

import sys

from components.prepare_examples.command_line.cli import main

sys.exit(main())
