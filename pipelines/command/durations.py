"""Times on a command line: `90`, `90s`, `30m`, `2h`, `30d`."""

import argparse
import re

_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}


def seconds(text: str) -> int:
    """The seconds of a time such as `90`, `90s`, `30m`, `2h` or `30d`; for argparse."""
    found = re.fullmatch(r"(\d{1,9})([smhd]?)", text, re.ASCII)
    if not found or not int(found[1]):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not allowed; give a whole number above 0 of seconds, or 90s, 30m, 2h, 30d"
        )
    return int(found[1]) * _SECONDS[found[2]]
