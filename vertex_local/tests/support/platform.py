"""Whether tests run with the interfaces of Linux."""

import os
import sys

IS_PORTABLE = sys.platform != "linux" or os.environ.get("TRAINYARD_PORTABLE") == "1"
