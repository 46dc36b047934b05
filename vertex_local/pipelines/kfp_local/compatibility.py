"""Checks of the installed kfp: its version, and what of its modules this service replaces."""

import inspect
import sys
from collections.abc import Callable
from importlib import metadata
from typing import Any

TESTED_KFP = "2.17.0"


class UnsupportedKfpError(RuntimeError):
    """The installed kfp lacks an attribute or a parameter that this service replaces."""


def problem() -> str:
    """Return the problem of the installed kfp with its remedy; empty if there is none."""
    try:
        version = metadata.version("kfp")
    except metadata.PackageNotFoundError:
        version = ""
    if _series(version) == _series(TESTED_KFP):
        return ""
    state = f"kfp {version} is installed" if version else "kfp is not installed"
    return (
        f"{state}, but pipelines need {TESTED_KFP}; install it, then start this service again: "
        f"{sys.executable} -m pip install kfp=={TESTED_KFP} uv"
    )


def _series(version: str) -> list[str]:
    return version.split(".")[:2]


def replace(
    owner: Any, name: str, replacement: Any, *, takes: tuple[str, ...] | None = None
) -> None:
    """Replace an attribute of kfp, if it exists and takes the expected parameters.

    Args:
        owner: A module or class of kfp.
        name: The attribute.
        replacement: The new value.
        takes: The expected parameters; default: those of the replacement.

    Raises:
        UnsupportedKfpError: The attribute is missing or takes other parameters.
    """
    import kfp

    place = f"{getattr(owner, '__module__', '')}.{owner.__name__}.{name}".lstrip(".")
    if not hasattr(owner, name):
        raise _unsupported(kfp.__version__, f"{place} is missing")
    if takes is None:
        takes = _named_parameters(replacement)
    original = getattr(owner, name)
    if takes and not set(takes) <= set(inspect.signature(original).parameters):
        raise _unsupported(kfp.__version__, f"{place} no longer takes {', '.join(takes)}")
    setattr(owner, name, replacement)


def _named_parameters(function: Callable[..., Any]) -> tuple[str, ...]:
    parameters = inspect.signature(function).parameters.values()
    return tuple(one.name for one in parameters if one.kind is not one.VAR_KEYWORD)


def _unsupported(version: str, problem: str) -> UnsupportedKfpError:
    return UnsupportedKfpError(
        f"kfp {version} cannot run pipelines here: {problem}. "
        f"Install the supported version: pip install kfp=={TESTED_KFP}"
    )
