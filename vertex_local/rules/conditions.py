"""Evaluation of `dsl.If` conditions: values are never code, and what has no value is an error."""

import ast
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any

TOKEN = re.compile(
    r"""(?P<string>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")|(?P<operator>&&|\|\||!(?!=))""", re.VERBOSE
)
PYTHON_OPERATORS = {"&&": " and ", "||": " or ", "!": " not "}

CONSTANTS: dict[str, Any] = {"true": True, "false": False, "null": None}
FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "int": int,
    "double": float,
    "float": float,
    "string": str,
    "bool": bool,
}
COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


class ConditionError(ValueError):
    """Condition that cannot be evaluated; the message has the condition and the reason."""


def evaluate(condition: str, values: Mapping[str, Any]) -> bool:
    """Return the result of a compiled condition for the values of its inputs.

    Conditions are the subset of CEL that the KFP compiler writes:
    `!(inputs.parameter_values['a'] == 'b') && int(inputs.parameter_values['n']) > 2`.

    Raises:
        ConditionError: It is malformed, reads an unknown input, or compares different types.
    """
    tree = parse(condition)
    try:
        return _boolean(tree.body, values)
    except (ValueError, TypeError) as error:
        raise ConditionError(f"condition `{condition}` cannot be evaluated: {error}") from None


def parse(condition: str) -> ast.Expression:
    """Return a condition's syntax tree.

    Raises:
        ConditionError: It is malformed.
    """
    python = TOKEN.sub(
        lambda token: token["string"] or PYTHON_OPERATORS[token["operator"]], condition
    )
    try:
        return ast.parse(python.strip(), mode="eval")
    except SyntaxError:
        reason = "invalid syntax (a quote in a compared string causes this)"
        raise ConditionError(f"condition `{condition}` cannot be evaluated: {reason}") from None


def _value(node: ast.expr, values: Mapping[str, Any]) -> Any:
    value: Any
    match node:
        case ast.Constant(value=constant):
            value = constant
        case ast.Name(id=name) if name in CONSTANTS:
            value = CONSTANTS[name]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            value = -_value(operand, values)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            value = not _boolean(operand, values)
        case ast.BoolOp(op=operation, values=operands):
            combine = all if isinstance(operation, ast.And) else any
            value = combine(_boolean(operand, values) for operand in operands)
        case ast.Compare(left=left, ops=[comparison], comparators=[right]):
            value = _compare(comparison, _value(left, values), _value(right, values))
        case ast.Call(func=ast.Name(id=name), args=[argument]) if name in FUNCTIONS:
            value = FUNCTIONS[name](_value(argument, values))
        case ast.Subscript(slice=ast.Constant(value=str() as name), value=source) if (
            ast.unparse(source) == "inputs.parameter_values"
        ):
            if name not in values:
                raise ValueError(f"it reads {name!r}, which has no value")
            value = values[name]
        case _:
            raise ValueError(f"`{ast.unparse(node)}` is not supported")
    return value


def _boolean(node: ast.expr, values: Mapping[str, Any]) -> bool:
    value = _value(node, values)
    if not isinstance(value, bool):
        raise ValueError(f"`{ast.unparse(node)}` is {value!r}, neither true nor false")
    return value


def _compare(comparison: ast.cmpop, left: Any, right: Any) -> bool:
    if None not in (left, right) and _kind(left) != _kind(right):
        raise ValueError(
            f"it compares {left!r} ({_kind(left)}) with {right!r} ({_kind(right)}); "
            "give both sides the same type"
        )
    if type(comparison) not in COMPARISONS:
        raise ValueError(f"`{type(comparison).__name__}` is not supported")
    return COMPARISONS[type(comparison)](left, right)


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "number"
    return "string" if isinstance(value, str) else type(value).__name__
