"""The text of a script: its `fit`, and the imports, functions and classes in it."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from components.shared.text.user_file import read_text_file
from pipelines.projects.literals import quoted

OF_MODELS = {"epochs", "batch_size", "validation_data", "validation_split", "callbacks"}
OF_ROWS = (
    "rows are the file's rows in the order of x, as a DataFrame with the file's index, row numbers"
    " from 0, or records; label is the column to predict"
)
OF_IMAGES = "images is the folder of x's pictures"


class ScriptFault(Exception):  # noqa: N818  a script has faults, which are named by their lines
    """Something of a script that cannot be taken over.

    Attributes:
        line: in the script, 0 if none is known.
    """

    def __init__(self, message: str, *, line: int = 0):
        super().__init__(message)
        self.line = line


class ScriptText:
    """A script as text.

    Attributes:
        nodes: of its syntax tree.
        defined: its functions, classes and imports by their names.
    """

    def __init__(self, path: Path, text: str):
        self.path, self.text = path, text
        self.tree = ast.parse(text)
        self.nodes = list(ast.walk(self.tree))
        self.defined: dict[str, Any] = dict(pair for node in self.nodes for pair in _defined(node))

    def loop_around(self, line: int) -> ast.stmt | None:
        """Return the outermost loop that a line is in."""
        loops = (node for node in self.nodes if isinstance(node, ast.For | ast.While))
        return next((n for n in loops if n.lineno < line <= (n.end_lineno or 0)), None)

    def check_fit(self, label: str, *, images: str = "") -> None:
        """Raise ScriptFault with the `fit` to change, unless a script names trainyard."""
        if "trainyard" in self.text:
            return
        calls = [node for node in self.nodes if isinstance(node, ast.Call)]
        fits = [call for call in calls if getattr(call.func, "attr", "") == "fit"]
        fits.sort(key=lambda call: OF_MODELS.isdisjoint(word.arg for word in call.keywords))
        if not fits:
            raise ScriptFault("it has no model.fit(…), which would become trainyard.fit(model, …)")
        call = fits[0]
        model = ast.unparse(call.func).removesuffix(".fit")
        told, why = f"rows=…, label={quoted(label or '…')}", OF_ROWS
        if images:
            told, why = f"images={quoted(images)}", OF_IMAGES
        words = [model, *map(ast.unparse, call.args), told, *map(ast.unparse, call.keywords)]
        raise ScriptFault(
            f"change {ast.unparse(call)} to trainyard.fit({', '.join(words)}), and import"
            f" trainyard: {why}",
            line=call.lineno,
        )


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


def _defined(node: ast.AST) -> Iterator[tuple[str, ast.stmt]]:
    match node:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            yield name, node
        case ast.Import(names=names):
            for alias in names:
                yield (alias.asname or alias.name).partition(".")[0], ast.Import([alias])
        case ast.ImportFrom(module=module, names=names, level=level):
            for alias in names:
                yield alias.asname or alias.name, ast.ImportFrom(module, [alias], level)
