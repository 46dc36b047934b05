"""Whether tests run with the interfaces of Linux."""

import os
import sys

IS_PORTABLE = sys.platform != "linux" or os.environ.get("TRAINYARD_PORTABLE") == "1"
# All services of tests have this one then, so that clients need to know no more than the address.
TOKEN = "token-of-tests" if IS_PORTABLE else ""
