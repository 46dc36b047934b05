"""Arguments of a call of `fit` in a script that is read, but not run."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

NUMBERS = ("epochs", "batch_size")
SILENT = ("x", "y", "verbose", "validation_data", "validation_split")


@dataclass(frozen=True)
class ReadFit:
    """The arguments of a `fit` that can be taken over, and the others.

    Attributes:
        line: of the call.
        train: settings of the training.
        callbacks: an expression of the module of the script.
        others: the arguments that are not taken over.
    """

    line: int = 0
    train: dict[str, int] = field(default_factory=dict)
    callbacks: str = ""
    others: tuple[str, ...] = ()

    @property
    def notes(self) -> list[str]:
        """Notes on the arguments that are left out."""
        shown = ", ".join(self.others)
        said = f"{shown} of fit in line {self.line}: not taken over; put it into workload.py"
        return [said] if shown else []


def read_fit(tree: ast.Module, module: str) -> ReadFit:
    """Return what the first `fit` of a script says."""
    calls = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "fit"
    ]
    if not calls:
        return ReadFit()
    call = min(calls, key=lambda node: node.lineno)
    train, callbacks, others = {}, "", []
    for keyword in call.keywords:
        name, value = keyword.arg or "**", keyword.value
        if name in NUMBERS and isinstance(value, ast.Constant) and type(value.value) is int:
            train[name] = value.value
        elif name == "callbacks" and (source := _of_module(value, tree, module)):
            callbacks = source
        elif name not in SILENT:
            others.append(name)
    return ReadFit(call.lineno, train, callbacks, tuple(others))


def _of_module(value: ast.expr, tree: ast.Module, module: str) -> str:
    """Return an expression with the script's names as those of its module; "" if it has others."""
    top = {name for node in tree.body for name in _bound(node)}
    inner = {one.arg for one in ast.walk(value) if isinstance(one, ast.arg)}
    names = [one for one in ast.walk(value) if isinstance(one, ast.Name) and one.id not in inner]
    if any(one.id not in top for one in names):
        return ""
    for one in names:
        one.id = f"{module}.{one.id}"
    return ast.unparse(value)


def _bound(node: ast.stmt) -> Iterator[str]:
    """Yield the names that a statement of a module binds."""
    if isinstance(node, ast.Import | ast.ImportFrom):
        yield from ((one.asname or one.name).split(".")[0] for one in node.names)
    elif isinstance(node, ast.FunctionDef | ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.Assign):
        yield from (one.id for one in node.targets if isinstance(one, ast.Name))
