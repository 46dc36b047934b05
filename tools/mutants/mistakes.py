"""Mistakes that can be made in a file: operators, conditions, constants, results, dropped calls."""

import ast
from dataclasses import dataclass

COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.In: "not in",
    ast.NotIn: "in",
    ast.Is: "is not",
    ast.IsNot: "is",
}
ARITHMETIC: dict[type[ast.operator], str] = {
    ast.Add: "-",
    ast.Sub: "+",
    ast.Mult: "/",
    ast.FloorDiv: "/",
    ast.Mod: "*",
    ast.BitOr: "&",
}
# Calls whose absence changes only what is written to a log or a terminal.
TOLD = ("logger.", "print(", "log_line(", "_log(")


@dataclass(frozen=True, kw_only=True)
class Mistake:
    """A replacement of the text at [start, end), offsets in bytes of the file's UTF-8.

    `function` is its qualified name, "" of a line that the import executes.
    """

    kind: str
    function: str
    line: int
    start: int
    end: int
    text: str


def mistakes_in(source: str) -> list[Mistake]:
    """Return the mistakes that can be made in a file, by position."""
    return sorted(_Finder(source).mistakes, key=lambda mistake: (mistake.start, mistake.text))


class _Finder(ast.NodeVisitor):
    def __init__(self, source: str) -> None:
        self._source = source.encode()
        self._line_starts = [0]
        for line in self._source.splitlines(keepends=True):
            self._line_starts.append(self._line_starts[-1] + len(line))
        self._path: list[ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef] = []
        self.mistakes: list[Mistake] = []
        self.visit(ast.parse(source))

    def _span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        start = self._line_starts[node.lineno - 1] + node.col_offset
        return start, self._line_starts[node.end_lineno - 1] + node.end_col_offset

    def _text(self, node: ast.expr | ast.stmt) -> str:
        start, end = self._span(node)
        return self._source[start:end].decode()

    def _add(self, kind: str, node: ast.expr | ast.stmt, text: str) -> None:
        start, end = self._span(node)
        is_in_function = any(not isinstance(scope, ast.ClassDef) for scope in self._path)
        function = ".".join(scope.name for scope in self._path) if is_in_function else ""
        self.mistakes.append(
            Mistake(kind=kind, function=function, line=node.lineno, start=start, end=end, text=text)
        )

    def visit(self, node: ast.AST) -> None:
        if not isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            super().visit(node)
            return
        self._path.append(node)
        for statement in node.body:  # neither decorators nor annotations
            self.visit(statement)
        self._path.pop()

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value:
            self.visit(node.value)

    def visit_If(self, node: ast.If) -> None:
        if ast.unparse(node.test) in ("TYPE_CHECKING", "__name__ == '__main__'"):
            return
        self._negate(node.test)
        self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self._negate(node.test)
        self.generic_visit(node)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        for test in node.ifs:
            self._negate(test)
        self.generic_visit(node)

    def _negate(self, test: ast.expr) -> None:
        self._add("condition", test, f"(not ({self._text(test)}))")

    def visit_Compare(self, node: ast.Compare) -> None:
        changed = COMPARISONS[type(node.ops[0])]
        if len(node.ops) == 1:
            left, right = self._text(node.left), self._text(node.comparators[0])
            self._add("operator", node, f"(({left}) {changed} ({right}))")
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        changed = ARITHMETIC.get(type(node.op))
        texts = [self._text(node.left), self._text(node.right)]
        if changed and not any(text.lstrip("rbf(").startswith(('"', "'")) for text in texts):
            self._add("operator", node, f"(({texts[0]}) {changed} ({texts[1]}))")
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        changed = " or " if isinstance(node.op, ast.And) else " and "
        texts = [f"({self._text(value)})" for value in node.values]
        self._add("operator", node, f"({changed.join(texts)})")
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, bool):
            self._add("constant", node, str(not node.value))
        elif isinstance(node.value, int | float):
            self._add("constant", node, f"({node.value!r} + 1)")

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Skip texts: their positions are the whole text's before Python 3.12."""

    def visit_Return(self, node: ast.Return) -> None:
        if node.value and not (isinstance(node.value, ast.Constant) and node.value.value is None):
            self._add("result", node, "return None")
            self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> None:
        text = self._text(node)
        if isinstance(node.value, ast.Call) and not text.startswith(TOLD):
            self._add("call", node, "pass")
            self.generic_visit(node)
