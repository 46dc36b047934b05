"""Times on a command line: `90`, `90s`, `30m`, `2h`."""

import argparse
import re

_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600}


def seconds(text: str) -> int:
    """The seconds of a time such as `90`, `90s`, `30m` or `2h`; for argparse."""
    found = re.fullmatch(r"(\d{1,9})([smh]?)", text, re.ASCII)
    if not found or not int(found[1]):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not allowed; give a whole number above 0 of seconds, or 90s, 30m, 2h"
        )
    return int(found[1]) * _SECONDS[found[2]]
