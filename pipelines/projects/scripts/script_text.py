"""The text of a script: its `fit`, and the functions and classes that are taken over."""

import ast
import builtins
import copy
import dis
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import CodeType
from typing import Any

from components.shared.text.user_file import read_text_file
from pipelines.projects.literals import comment, quoted

AFTER = ("fit", "evaluate", "predict", "save", "export", "save_weights", "load_weights")
FRAMES, RECORDS = ("read_csv", "read_parquet", "read_json"), ("DictReader",)
OF_MODELS = {"epochs", "batch_size", "validation_data", "validation_split", "callbacks"}


class ScriptFault(Exception):  # noqa: N818  a script has faults, which are named by their lines
    """Something of a script that cannot be taken over.

    Attributes:
        line: in the script, 0 if none is known.
    """

    def __init__(self, message: str, *, line: int = 0):
        super().__init__(message)
        self.line = line


class ScriptText:
    """A script as text."""

    def __init__(self, path: Path, text: str):
        self.path, self.text = path, text
        self.tree = ast.parse(text)
        self._nodes = list(ast.walk(self.tree))
        self._top = {name: node for node in self.tree.body for name in _bound(node)}
        self._defined = {
            node.name: node
            for node in self._nodes
            if isinstance(node, ast.FunctionDef | ast.ClassDef)
        }

    def loop_around(self, line: int) -> ast.stmt | None:
        """Return the outermost loop that a line is in."""
        loops = (node for node in self._nodes if isinstance(node, ast.For | ast.While))
        return next((n for n in loops if n.lineno < line <= (n.end_lineno or 0)), None)

    def after(self, line: int) -> Iterator[str]:
        """Yield what follows `fit` and is not taken over: `evaluate in line 30`."""
        for call in self._calls(*AFTER):
            if call.lineno > line:
                yield f"{_name_of(call.func)} in line {call.lineno}"

    def check_fit(self, label: str, *, images: str = "") -> None:
        """Raise ScriptFault with the `fit` to change, unless a script names trainyard."""
        if "trainyard" in self.text:
            return
        calls = list(self._calls("fit"))
        calls.sort(key=lambda call: OF_MODELS.isdisjoint(word.arg for word in call.keywords))
        if not calls:
            raise ScriptFault("it has no model.fit(…), which would become trainyard.fit(model, …)")
        call = calls[0]
        arguments = {**dict(zip("xy", call.args, strict=False))}
        arguments |= {str(word.arg): word.value for word in call.keywords}
        column = label or self._column_of(arguments.get("y"))
        told = [f"rows={self._frame(arguments)}", f"label={quoted(column or '…')}"]
        what = (
            "rows are the file's rows in the order of x, as a DataFrame with the file's index, row"
            " numbers from 0, or records; label is the column to predict"
        )
        if images:
            told = [f"images={quoted(images)}"]
            what = "images is the folder of x's pictures; if x has a part of them, rows their paths"
        words = [
            ast.unparse(call.func.value) if isinstance(call.func, ast.Attribute) else "model",
            *map(ast.unparse, call.args),
            *told,
            *map(ast.unparse, call.keywords),
        ]
        raise ScriptFault(
            f"change {ast.unparse(call)} to trainyard.fit({', '.join(words)}), and import"
            f" trainyard: {what}",
            line=call.lineno,
        )

    def _frame(self, arguments: Mapping[str, ast.expr]) -> str:
        """Return the variable with all of the file's rows: records, or what x or y is a column of.

        It has them if it is assigned once, to what reads the file.
        """
        assigned = [
            (node.targets[0].id, node.value)
            for node in self._nodes
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
        ]
        names = [name for name, _ in assigned]
        values = {name: value for name, value in assigned if names.count(name) == 1}
        given = [values.get(ast.unparse(value), value) for value in arguments.values()]
        for name, value in values.items():
            column = re.compile(rf"{re.escape(name)}\[\[?(['\"][^'\"]*['\"](, )?)+\]")
            if _is_read(value, RECORDS) or (
                _is_read(value, FRAMES) and any(column.match(ast.unparse(one)) for one in given)
            ):
                return name
        return "…"

    def _column_of(self, node: ast.expr | None) -> str:
        """Return the column that an expression, or the variable that it names, takes."""
        if isinstance(node, ast.Name):
            node = getattr(self._top.get(node.id), "value", None)
        texts = [n.value for n in ast.walk(node) if isinstance(n, ast.Constant)] if node else []
        return str(texts[0]) if len(texts) == 1 and isinstance(texts[0], str) else ""

    def _calls(self, *names: str) -> Iterator[ast.Call]:
        calls = (node for node in self._nodes if isinstance(node, ast.Call))
        return (call for call in calls if _name_of(call.func) in names)

    def definitions(
        self, names: Iterable[str], values: Mapping[str, Any], source: Callable[[Any], str]
    ) -> tuple[list[str], list[str]]:
        """Return the imports and the source of functions and classes, and of all that they use.

        `source` returns the source of a value, or raises ScriptFault.

        Raises:
            ScriptFault: one uses a variable of the script whose value has no source.
        """
        defined: dict[str, str] = {}
        for name in names:
            self._define(name, values, source, defined)
        texts = dict.fromkeys(defined.values())
        imports = [text for text in texts if text.startswith(("import ", "from "))]
        return imports, [text for text in texts if text not in imports]

    def lambda_source(self, function: Any) -> str:
        """Return the source of a lambda; ScriptFault if its line has several."""
        line = function.__code__.co_firstlineno
        nodes = [n for n in self._nodes if isinstance(n, ast.Lambda) and n.lineno == line]
        source = ast.get_source_segment(self.text, nodes[0]) if len(nodes) == 1 else None
        if source is None:
            raise ScriptFault("write this lambda as a function with a name", line=line)
        return " ".join(source.split())

    def defines(self, name: str) -> bool:
        """Return whether the script defines or imports a name."""
        return name in self._top or name in self._defined

    def _is_known(self, name: str, values: Mapping[str, Any]) -> bool:
        return self.defines(name) or (name in values and not hasattr(builtins, name))

    def _define(
        self,
        name: str,
        values: Mapping[str, Any],
        source: Callable[[Any], str],
        defined: dict[str, str],
    ) -> None:
        if name in defined:
            return
        node = self._defined.get(name) or self._top.get(name)
        defined[name] = ""
        if isinstance(node, ast.Import | ast.ImportFrom):
            own = copy.copy(node)
            own.names = [alias for alias in node.names if _name_bound(alias) == name]
            defined[name] = ast.unparse(own)
            return
        if not isinstance(node, ast.FunctionDef | ast.ClassDef):
            try:
                defined[name] = f"{name} = {source(values.get(name))}"
            except ScriptFault as fault:
                raise ScriptFault(
                    f"{name} is used by a function that is taken over, but {fault}: make it in the"
                    " function",
                    line=getattr(node, "lineno", 0),
                ) from fault
            return
        code = compile(ast.Module([node], []), str(self.path), "exec")
        for used in _global_names(code):
            if used != name and self._is_known(used, values):
                self._define(used, values, source, defined)
        first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
        lines = self.text.splitlines()[first - 1 : node.end_lineno]
        del defined[name]  # after what it uses
        origin = f"# Line {first} of {comment(self.path.name)}.\n"
        defined[name] = origin + textwrap.dedent("\n".join(lines))


def _global_names(code: CodeType) -> Iterator[str]:
    for step in dis.get_instructions(code):
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            yield str(step.argval)
        elif isinstance(step.argval, CodeType):
            yield from _global_names(step.argval)


def read_script(path: Path) -> ScriptText:
    """Return a script as text.

    Raises:
        ScriptFault: it is not Python; names the line.
        ValueError: it is no text.
        OSError: it cannot be read.
    """
    if path.suffix == ".ipynb":
        command = f"jupyter nbconvert --to script {path.name}"
        raise ScriptFault(f"it is a notebook; write its cells as a script: {command}")
    text = read_text_file(path)
    try:
        return ScriptText(path, text)
    except SyntaxError as error:
        raise ScriptFault(f"it is not Python: {error.msg}", line=error.lineno or 1) from error


def _is_read(value: ast.expr, readers: Sequence[str]) -> bool:
    """Return whether a value is what a function reads, perhaps as a list."""
    if isinstance(value, ast.Call) and _name_of(value.func) == "list" and value.args:
        value = value.args[0]
    return isinstance(value, ast.Call) and _name_of(value.func) in readers


def _name_of(node: Any) -> str:
    return str(getattr(node, "attr", getattr(node, "id", "")))


def _name_bound(alias: ast.alias) -> str:
    return (alias.asname or alias.name).partition(".")[0]


def _bound(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.Import | ast.ImportFrom):
        return list(map(_name_bound, node.names))
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return []
    names = (inner for inner in ast.walk(node) if isinstance(inner, ast.Name))
    return [name.id for name in names if isinstance(name.ctx, ast.Store)]
