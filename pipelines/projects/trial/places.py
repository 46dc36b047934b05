"""Places of mistakes: the line of a workload's file that declares something."""

import ast
import functools
import inspect
import re
import traceback
from pathlib import Path
from typing import Any

from trainer.errors import ConfigError, telling_lines
from trainer.workloads import Workload

_LINE = re.compile(r"(?P<path>[^\s:,]+\.(?:py|ya?ml|txt)), line (?P<line>\d+)")


class Places:
    """The lines of a workload's file; of None if it has none of the user's."""

    def __init__(self, file: Path | None):
        self._file = file

    def of_name(self, name: str) -> str:
        """Return `FILE:LINE: ` of the first text, such as a column's name, or call of a name.

        It is "" for no name, and for one that the file does not have.
        """
        lines = [node.lineno for node in self._nodes if name and name in _names(node)]
        return f"{self._file}:{min(lines)}: " if lines else ""

    def of_model(self, workload: Workload, model: str) -> str:
        """Return `FILE:LINE: ` of the function that builds a model, else ""."""
        models: dict[str, Any] = getattr(workload, "models", dict)()
        function = inspect.unwrap(models.get(model or workload.default_model, len))
        code = getattr(getattr(function, "func", function), "__code__", None)
        if code is None or not self._is_own(code.co_filename):
            return ""
        return f"{code.co_filename}:{code.co_firstlineno}: "

    def of_error(self, error: BaseException) -> str:
        """Return `FILE:LINE: ` of the innermost line of the user's files in a traceback."""
        frames = traceback.extract_tb(error.__traceback__)
        own = [frame for frame in frames if self._is_own(frame.filename)]
        return f"{own[-1].filename}:{own[-1].lineno}: " if own else ""

    def _is_own(self, file: str) -> bool:
        return self._file is not None and Path(file).is_relative_to(self._file.parent)

    @functools.cached_property
    def _nodes(self) -> list[Any]:
        return [*ast.walk(ast.parse(self._file.read_bytes()))] if self._file else []


def explain(error: BaseException, position: str) -> str:
    """Return an error in one line with its position; the class is named unless it is ours."""
    is_ours = type(error).__module__.split(".")[0] in ("trainer", "components", "pipelines")
    if isinstance(error, ConfigError) or is_ours:
        return position + " ".join(str(error).split())
    lines = telling_lines(error) if isinstance(error, Exception) else [str(error)]
    text = lines[0] if lines[0].endswith(".") else " ".join(lines[:2])
    return f"{position}{type(error).__name__}: {text}"


def with_colons(text: str) -> str:
    """Return a message with `FILE:LINE` instead of `FILE, line LINE`."""
    return _LINE.sub(r"\g<path>:\g<line>", text)


def _names(node: Any) -> list[Any]:
    match node:
        case ast.Constant(value=str(text)):
            return [text]
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            return [name]
    return []
