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

    def of_text(self, text: str) -> str:
        """Return `FILE:LINE: ` of the call that has a text, such as a column's name, else ""."""
        nodes = [node for node in self._nodes if _is_text(node, text)]
        return self._place(nodes[0].lineno) if nodes else ""

    def of_call(self, *names: str) -> str:
        """Return `FILE:LINE: ` of the first call of one of some functions, else ""."""
        for node in self._nodes:
            function = node.func if isinstance(node, ast.Call) else None
            if getattr(function, "attr", getattr(function, "id", None)) in names:
                return self._place(getattr(node, "lineno", 0))
        return ""

    def of_model(self, workload: Workload, model: str) -> str:
        """Return `FILE:LINE: ` of the function that builds a model, else ""."""
        models: dict[str, Any] = getattr(workload, "models", dict)()
        function = inspect.unwrap(models.get(model or workload.default_model, len))
        code = getattr(getattr(function, "func", function), "__code__", None)
        if code is None or self._file is None or not self._is_own(code.co_filename):
            return ""
        return f"{code.co_filename}:{code.co_firstlineno}: "

    def of_error(self, error: BaseException) -> str:
        """Return `FILE:LINE: ` of the innermost line of the user's files in a traceback."""
        frames = traceback.extract_tb(error.__traceback__)
        own = [frame for frame in frames if self._is_own(frame.filename)]
        return f"{own[-1].filename}:{own[-1].lineno}: " if own else ""

    def _is_own(self, file: str) -> bool:
        return self._file is not None and Path(file).is_relative_to(self._file.parent)

    def _place(self, line: int) -> str:
        return f"{self._file}:{line}: "

    @functools.cached_property
    def _nodes(self) -> list[Any]:
        if self._file is None:
            return []
        nodes = ast.walk(ast.parse(self._file.read_text(encoding="utf-8")))
        return sorted(
            (node for node in nodes if hasattr(node, "lineno")), key=lambda node: node.lineno
        )


def explain(error: BaseException, position: str) -> str:
    """Return an error in one line with its position; the class is named unless it is ours."""
    text = " ".join(str(error).split()) if isinstance(error, ConfigError) else first_line_of(error)
    is_ours = type(error).__module__.split(".")[0] in ("trainer", "components", "pipelines")
    return f"{position}{text if is_ours else f'{type(error).__name__}: {text}'}"


def first_line_of(error: BaseException) -> str:
    """Return the first line of an error that says something."""
    if not isinstance(error, Exception):
        return str(error)
    lines = telling_lines(error)
    return lines[0] if lines[0].endswith(".") else " ".join(lines[:2])


def with_colons(text: str) -> str:
    """Return a message with `FILE:LINE` instead of `FILE, line LINE`."""
    return _LINE.sub(r"\g<path>:\g<line>", text)


def _is_text(node: Any, text: str) -> bool:
    if isinstance(node, ast.Dict):
        return any(_is_text(key, text) for key in node.keys)
    return isinstance(node, ast.Constant) and node.value == text
