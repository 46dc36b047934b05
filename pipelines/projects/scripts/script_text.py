"""The text of a script: the lines of what was recorded, and the functions that are taken over."""

import ast
import builtins
import dis
import itertools
import math
import textwrap
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from pathlib import Path
from types import CodeType
from typing import Any, TypeVar

from components.shared.text.user_file import read_text_file
from pipelines.projects.literals import comment

AFTER = ("fit", "evaluate", "predict", "save", "export", "save_weights", "load_weights")
Node = TypeVar("Node", bound=ast.AST)
PLAIN = (int, float, str, bool, bytes, type(None))


class ScriptFault(Exception):  # noqa: N818  a script has faults, which are collected
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
        self._top = {name: node for node in self.tree.body for name in _bound(node)}
        self._defined = {
            node.name: node
            for node in ast.walk(self.tree)
            if isinstance(node, ast.FunctionDef | ast.ClassDef)
        }

    def _nodes(self, kind: type[Node]) -> Iterator[Node]:
        return (node for node in ast.walk(self.tree) if isinstance(node, kind))

    def imports(self) -> Iterator[tuple[str, int]]:
        """Yield the packages and modules that the script imports at the top, with their lines."""
        for node in self.tree.body:
            match node:
                case ast.Import(names=names):
                    yield from ((alias.name.split(".")[0], node.lineno) for alias in names)
                case ast.ImportFrom(module=str(module), level=0):
                    yield module.split(".")[0], node.lineno

    def line_of(self, name: str) -> int:
        """Return the first line that binds a name, or an item of this name; 0 if there is none."""
        return min(self._bindings(name), default=0)

    def _bindings(self, name: str, before: float = math.inf) -> list[int]:
        return [
            node.lineno
            for node in self._nodes(ast.stmt)
            if node.lineno < before and name in (*_bound(node), *_bound_items(node))
        ]

    def calls(self, name: str, line: int = 0) -> Iterator[ast.Call]:
        """Yield the calls of a function or method, of a line if it is not 0."""
        for call in self._nodes(ast.Call):
            is_in_line = not line or call.lineno <= line <= (call.end_lineno or 0)
            if is_in_line and _name_of(call.func) == name:
                yield call

    def line_of_argument(self, name: str, call_line: int) -> int:
        """Return the line that makes the argument x or y of a call of `fit`."""
        for call in self.calls("fit", call_line):
            at = "xy".index(name)
            nodes = [keyword.value for keyword in call.keywords if keyword.arg == name]
            nodes += call.args[at : at + 1]
            if nodes and isinstance(nodes[0], ast.Name):
                return max(self._bindings(nodes[0].id, call.lineno), default=call_line)
        return call_line

    def builders(self, models: Container[str]) -> Iterator[ast.FunctionDef]:
        """Yield the functions that call one of some classes and return something."""
        for function in self._nodes(ast.FunctionDef):
            inner = list(ast.walk(function))
            names = [_name_of(child.func) for child in inner if isinstance(child, ast.Call)]
            returns = any(isinstance(child, ast.Return) and child.value for child in inner)
            if returns and any(name in models for name in names):
                yield function

    def line_of_variable(self, call_line: int) -> int:
        """Return the line that makes the object whose `fit` is called in a line."""
        objects = [getattr(call.func, "value", None) for call in self.calls("fit", call_line)]
        lines = [self._bindings(_name_of(owner), call_line) for owner in objects]
        return max(itertools.chain.from_iterable(lines), default=call_line)

    def after(self, line: int) -> Iterator[str]:
        """Yield what follows the first fit and is not taken over: `evaluate in line 30`."""
        for call in self._nodes(ast.Call):
            name = getattr(call.func, "attr", "")
            if name in AFTER and call.lineno > line:
                yield f"{name} in line {call.lineno}"

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
        nodes = [node for node in self._nodes(ast.Lambda) if node.lineno == line]
        source = ast.get_source_segment(self.text, nodes[0]) if len(nodes) == 1 else None
        if source is None:
            raise ScriptFault("write this lambda as a function with a name", line=line)
        return " ".join(source.split())

    def arguments_of(self, name: str, values: Mapping[str, Any]) -> str:
        """Return the arguments of the call of a class of the script, as plain values.

        Raises:
            ScriptFault: there is no such call, or an argument is no plain value.
        """
        calls = [call for call in self._nodes(ast.Call) if getattr(call.func, "id", "") == name]
        if not calls:
            raise ScriptFault(f"no line of the script calls {name}")
        [*_, call] = calls
        shown = []
        for keyword, node in [("", argument) for argument in call.args] + [
            (str(argument.arg), argument.value) for argument in call.keywords
        ]:
            value = self._value(node, values)
            shown.append(f"{keyword}={value}" if keyword else value)
        return ", ".join(shown)

    def argument_of(self, function: str, name: str, values: Mapping[str, Any]) -> Any:
        """Return the value of a named argument of a function that the script calls, if it has it.

        Raises:
            ScriptFault: it is no plain value.
        """
        keywords = itertools.chain.from_iterable(call.keywords for call in self.calls(function))
        nodes = [keyword.value for keyword in keywords if keyword.arg == name]
        return ast.literal_eval(self._value(nodes[0], values)) if nodes else None

    def _value(self, node: ast.expr, values: Mapping[str, Any]) -> str:
        code = compile(ast.Expression(node), str(self.path), "eval")
        try:
            value = eval(code, dict(values))  # which the script has evaluated, too
        except Exception as error:  # whatever the user's expression raises
            remedy = "; assign it outside of functions" if isinstance(error, NameError) else ""
            problem = f"{ast.unparse(node)}: {error}{remedy}"
            raise ScriptFault(problem, line=node.lineno) from error
        if not _is_plain(value):
            raise ScriptFault(
                f"the argument {ast.unparse(node)} is {value!r:.60}; it must be a number, a text or"
                " a list of them",
                line=node.lineno,
            )
        return repr(value)

    def _is_known(self, name: str, values: Mapping[str, Any]) -> bool:
        return (
            name in self._top
            or name in self._defined
            or (name in values and not hasattr(builtins, name))
        )

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
            defined[name] = ast.unparse(node)
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


def _name_of(node: Any) -> str:
    return str(getattr(node, "name", getattr(node, "attr", getattr(node, "id", ""))))


def _bound(node: ast.AST) -> list[str]:
    match node:
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            return [(alias.asname or alias.name).split(".")[0] for alias in names]
        case ast.Assign(targets=targets):
            inner = [child for target in targets for child in ast.walk(target)]
            return [child.id for child in inner if isinstance(child, ast.Name)]
        case ast.AnnAssign(target=ast.Name(id=name)):
            return [name]
    return []


def _bound_items(node: ast.AST) -> list[Any]:
    """Return the keys that a statement binds: `df["name"] = …`."""
    targets = node.targets if isinstance(node, ast.Assign) else []
    keys = [target.slice for target in targets if isinstance(target, ast.Subscript)]
    return [key.value for key in keys if isinstance(key, ast.Constant)]


def _is_plain(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    if isinstance(value, dict):
        return all(_is_plain(item) for pair in value.items() for item in pair)
    return isinstance(value, PLAIN)
