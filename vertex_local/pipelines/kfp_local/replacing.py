"""Replaces attributes of kfp's modules, after a look at what is replaced."""

import inspect
from collections.abc import Callable
from typing import Any

from vertex_local.processes.environments.own import TESTED_KFP


class UnsupportedKfpError(RuntimeError):
    """The installed kfp is not built as this service needs it."""


def replace(
    owner: Any, name: str, replacement: Any, *, takes: tuple[str, ...] | None = None
) -> None:
    """Replaces an attribute after a look at what is replaced.

    Args:
        owner: A module or class of kfp.
        name: The attribute.
        replacement: What takes its place.
        takes: The parameters that kfp passes; None for those of the replacement.
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
        f"Install the version this service was written for: pip install kfp=={TESTED_KFP}"
    )
