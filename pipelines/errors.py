"""Errors of commands that their message explains, apart from what raises them.

`trainyard` catches them all, without importing the modules of the commands that are not used.
"""

import re
from collections.abc import Mapping


class ResourceError(ValueError):
    """The resource does not exist, or its state or an argument does not allow the action."""


class RegistryError(Exception):
    """The repository of packages refused a request or did not respond."""


class LocalServiceError(Exception):
    """This machine's service did not start, does not respond, or runs in another mode."""


def with_place(error: str, places: Mapping[str, str]) -> str:
    """Return an error with the line of a file, if it begins with what the file gives.

    `places` has the lines by option or setting: `prod.yaml, line 3` of `train.epochs=0`.
    """
    for setting, place in places.items():
        key, written = setting.partition("=")[0], f"--set {setting}: "
        if error.startswith(written) or re.match(rf"{re.escape(key)}(?![\w.])", error):
            problem = error.removeprefix(written)
            return f"{place}: {problem if key in problem else f'{key}: {problem}'}"
    return error
