"""Replacement of attributes of kfp's modules, with a check of the installed version."""

import inspect
from collections.abc import Callable
from typing import Any

from vertex_local.processes.environments.own import TESTED_KFP


class UnsupportedKfpError(RuntimeError):
    """The installed kfp lacks an attribute or a parameter that this service replaces."""


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
