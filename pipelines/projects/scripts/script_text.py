"""The text of a script: the lines of what was recorded, and the functions that are taken over."""

import ast
import builtins
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pipelines.projects.scripts.faults import ScriptFault

AFTER = ("fit", "evaluate", "predict", "save", "export", "save_weights", "load_weights")
PLAIN = (int, float, str, bool, bytes, type(None))


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

    def imports(self) -> Iterator[tuple[str, int]]:
        """Yield the packages and modules that the script imports at the top, with their lines."""
        for node in self.tree.body:
            match node:
                case ast.Import(names=names):
                    yield from ((one.name.split(".")[0], node.lineno) for one in names)
                case ast.ImportFrom(module=str(module), level=0):
                    yield module.split(".")[0], node.lineno

    def line_of(self, name: str) -> int:
        """Return the line at the top that binds a name; 0 if there is none."""
        return getattr(self._top.get(name), "lineno", 0)

    def line_of_variable(self, call_line: int) -> int:
        """Return the line that makes the object whose method is called in a line."""
        name = ""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Call) and node.lineno <= call_line <= (node.end_lineno or 0):
                match node.func:
                    case ast.Attribute(value=ast.Name(id=found), attr="fit"):
                        name = found
        lines = [
            node.lineno
            for node in ast.walk(self.tree)
            if isinstance(node, ast.Assign) and node.lineno < call_line and name in _bound(node)
        ]
        return max(lines, default=call_line)

    def after(self, line: int) -> Iterator[str]:
        """Yield what follows the first fit and is not taken over: `evaluate in line 30`."""
        for node in ast.walk(self.tree):
            match node:
                case ast.Call(func=ast.Attribute(attr=name)) if (
                    name in AFTER and node.lineno > line
                ):
                    yield f"{name} in line {node.lineno}"

    def definitions(
        self, names: Iterable[str], values: Mapping[str, Any]
    ) -> tuple[list[str], list[str]]:
        """Return the imports and the source of functions and classes, and of all that they use.

        Args:
            names: of functions and classes.
            values: of the script's variables.

        Raises:
            ScriptFault: one uses a variable of the script that is no plain value.
        """
        found: dict[str, str] = {}
        for name in names:
            self._define(name, values, found)
        texts = dict.fromkeys(found.values())
        imports = [one for one in texts if one.startswith(("import ", "from "))]
        return imports, [one for one in texts if one not in imports]

    def lambda_source(self, function: Any) -> str:
        """Return the source of a lambda; ScriptFault if its line has several."""
        line = function.__code__.co_firstlineno
        nodes = [
            node
            for node in ast.walk(self.tree)
            if isinstance(node, ast.Lambda) and node.lineno == line
        ]
        source = ast.get_source_segment(self.text, nodes[0]) if len(nodes) == 1 else None
        if source is None:
            raise ScriptFault("write this lambda as a function with a name", line=line)
        return " ".join(source.split())

    def arguments_of(self, name: str, values: Mapping[str, Any]) -> str:
        """Return the arguments of the call of a class of the script, as plain values.

        Raises:
            ScriptFault: there is no such call, or an argument is no plain value.
        """
        calls = [
            node
            for node in ast.walk(self.tree)
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == name
        ]
        if not calls:
            raise ScriptFault(f"no line of the script calls {name}")
        [*_, call] = calls
        shown = []
        for keyword, node in [("", one) for one in call.args] + [
            (str(one.arg), one.value) for one in call.keywords
        ]:
            value = self._value(node, values)
            shown.append(f"{keyword}={value}" if keyword else value)
        return ", ".join(shown)

    def _value(self, node: ast.expr, values: Mapping[str, Any]) -> str:
        code = compile(ast.Expression(node), str(self.path), "eval")
        try:
            value = eval(code, dict(values))  # which the script has evaluated, too
        except Exception as error:  # whatever the user's expression raises
            raise ScriptFault(f"{ast.unparse(node)}: {error}", line=node.lineno) from error
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

    def _define(self, name: str, values: Mapping[str, Any], found: dict[str, str]) -> None:
        if name in found:
            return
        node = self._defined.get(name) or self._top.get(name)
        found[name] = ""
        if isinstance(node, ast.Import | ast.ImportFrom):
            found[name] = ast.unparse(node)
            return
        if not isinstance(node, ast.FunctionDef | ast.ClassDef):
            value = values.get(name)
            if not _is_plain(value):
                raise ScriptFault(
                    f"{name} is used by a function that is taken over, but it is no plain value"
                    f" ({type(value).__name__}): make it in the function",
                    line=getattr(node, "lineno", 0),
                )
            found[name] = f"{name} = {value!r}"
            return
        parameters = {one.arg for one in ast.walk(node) if isinstance(one, ast.arg)}
        for inner in ast.walk(node):
            match inner:
                case ast.Name(id=used, ctx=ast.Load()) if used != name:
                    if used not in parameters and self._is_known(used, values):
                        self._define(used, values, found)
        first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
        lines = self.text.splitlines()[first - 1 : node.end_lineno]
        del found[name]  # after what it uses
        found[name] = f"# Line {first} of {self.path.name}.\n" + textwrap.dedent("\n".join(lines))


def _bound(node: ast.AST) -> list[str]:
    """Return the names that a statement binds."""
    match node:
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            return [(one.asname or one.name).split(".")[0] for one in names]
        case ast.Assign(targets=targets):
            return [
                one.id
                for target in targets
                for one in ast.walk(target)
                if isinstance(one, ast.Name)
            ]
        case ast.AnnAssign(target=ast.Name(id=name)):
            return [name]
    return []


def _is_plain(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    if isinstance(value, dict):
        return all(_is_plain(one) for pair in value.items() for one in pair)
    return isinstance(value, PLAIN)
