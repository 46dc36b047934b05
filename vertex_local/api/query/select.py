"""Filters and orders as SQL, over a table with the fields of each resource.

Resources may be large, so only the page's are read.
"""

import sqlite3
from dataclasses import dataclass

from vertex_local import Json
from vertex_local.api import fields
from vertex_local.api.fields import COLUMNS, TIMES, UNFINISHED, fields_of, snake_case
from vertex_local.api.query.grammar import Joined, Node, Not, Restriction, parse
from vertex_local.api.resource_names import ResourcePath
from vertex_local.errors import ApiError, invalid_argument

COLUMN_LIST = ", ".join(f'"{column}"' for column in COLUMNS)
UNFINISHED_STATES = ", ".join(f"'{state}'" for state in UNFINISHED)
IS_UNFINISHED = f"(done = 'false' OR state IN ({UNFINISHED_STATES}))"
# What both tables have is also in the resources.
SCHEMA = f"""
DROP TABLE IF EXISTS listed;
DROP TABLE IF EXISTS labels;
CREATE TABLE listed (
    position INTEGER PRIMARY KEY,
    collection TEXT NOT NULL,
    kind TEXT NOT NULL,
    {", ".join(f'"{column}" TEXT NOT NULL' for column in COLUMNS)}
);
CREATE INDEX listed_by_kind ON listed (kind, position);
CREATE INDEX listed_unfinished ON listed (kind, position) WHERE {IS_UNFINISHED};
CREATE INDEX listed_by_position ON listed (collection, position);
CREATE INDEX listed_by_state ON listed (collection, state, position);
CREATE INDEX listed_by_display_name ON listed (collection, display_name, position);
CREATE INDEX listed_by_create_time ON listed (collection, create_time, position);
CREATE INDEX listed_by_outcome ON listed (collection, outcome);
CREATE INDEX listed_by_workload ON listed (collection, workload);
CREATE INDEX listed_by_schedule ON listed (schedule_name);
CREATE TABLE labels (
    key TEXT NOT NULL, value TEXT NOT NULL, position INTEGER NOT NULL,
    PRIMARY KEY (key, value, position)
) WITHOUT ROWID;
CREATE INDEX labels_by_position ON labels (position);
"""
INSERT = (
    f"INSERT OR REPLACE INTO listed (position, collection, kind, {COLUMN_LIST}) "
    f"VALUES ({', '.join('?' * (len(COLUMNS) + 3))})"
)


@dataclass(frozen=True)
class Query:
    """Filter and order of a list request, in SQL; `orders` are columns, and if they descend."""

    condition: str
    values: tuple[str, ...]
    orders: tuple[tuple[str, bool], ...]


def build(kind: str, *, filter_text: str, order_by: str) -> Query:
    """Return the query of a filter and an order.

    Raises:
        ApiError: INVALID_ARGUMENT, naming an unknown field and the known ones.
    """
    node = parse(filter_text)
    condition, values = _condition(kind, node) if node else ("1", [])
    return Query(condition, tuple(values), _orders(kind, order_by))


def put(connection: sqlite3.Connection, position: int, name: str, body: Json) -> None:
    """Insert or update the rows of a resource."""
    row = fields.row_of(name, body)
    resource = ResourcePath.from_name(name)
    values = (row[column] for column in COLUMNS)
    connection.execute(INSERT, (position, resource.full_collection, resource.kind, *values))
    connection.execute("DELETE FROM labels WHERE position = ?", (position,))
    connection.executemany(
        "INSERT INTO labels (key, value, position) VALUES (?, ?, ?)",
        [(key, value, position) for key, value in fields.labels_of(body).items()],
    )


def remove(connection: sqlite3.Connection, position: int) -> None:
    """Delete the rows of a resource."""
    connection.execute("DELETE FROM listed WHERE position = ?", (position,))
    connection.execute("DELETE FROM labels WHERE position = ?", (position,))


def select(
    connection: sqlite3.Connection,
    collection: str,
    query: Query,
    *,
    after: tuple[str | int, ...] = (),
    limit: int,
) -> list[tuple[str | int, ...]]:
    """Return the sort key of each resource of a page: the sort columns, then its position.

    `collection` may have a `*`; `after` is the last sort key of the page before.
    """
    keys = [(f'"{column}"', is_descending) for column, is_descending in query.orders]
    keys.append(("position", bool(keys) and keys[-1][1]))
    later, bounds = _later(keys, after) if after else ("1", [])
    order = ", ".join(f"{key} {'DESC' if is_descending else 'ASC'}" for key, is_descending in keys)
    equals = "GLOB" if "*" in collection else "="
    rows = connection.execute(
        f"SELECT {', '.join(key for key, _ in keys)} FROM listed "
        f"WHERE collection {equals} ? AND ({query.condition}) AND ({later}) "
        f"ORDER BY {order} LIMIT ?",
        (collection, *query.values, *bounds, limit),
    )
    return rows.fetchall()


def count(connection: sqlite3.Connection, collection: str, query: Query) -> int:
    """Return the number of the resources of a query."""
    sql = f"SELECT COUNT(*) FROM listed WHERE collection GLOB ? AND ({query.condition})"
    return int(connection.execute(sql, (collection, *query.values)).fetchone()[0])


def _later(
    keys: list[tuple[str, bool]], after: tuple[str | int, ...]
) -> tuple[str, list[str | int]]:
    """Return the condition for rows after a sort key; its first part is a range of the index."""
    range_ = f"{keys[0][0]} {'<=' if keys[0][1] else '>='} ?"
    conditions: list[str] = []
    values: list[str | int] = [after[0]]
    for number, (key, is_descending) in enumerate(keys):
        equal = [f"{before} = ?" for before, _ in keys[:number]]
        conditions.append(" AND ".join([*equal, f"{key} {'<' if is_descending else '>'} ?"]))
        values += after[: number + 1]
    later = " OR ".join(f"({condition})" for condition in conditions)
    return f"{range_} AND ({later})", values


def _orders(kind: str, order_by: str) -> tuple[tuple[str, bool], ...]:
    orders: dict[str, bool] = {}
    for term in filter(None, (term.strip() for term in order_by.split(","))):
        field, *direction = term.split()
        if direction not in ([], ["asc"], ["desc"]):
            raise invalid_argument(
                f'orderBy "{order_by}" is not valid; write a field, then asc or desc.'
            )
        column = snake_case(field)
        if column not in fields_of(kind):
            raise _unknown_field("orderBy", field, kind, fields_of(kind))
        if column in orders:
            raise invalid_argument(f'orderBy "{order_by}" names {field} twice.')
        orders[column] = direction == ["desc"]
    return tuple(orders.items())


def _condition(kind: str, node: Node) -> tuple[str, list[str]]:
    if isinstance(node, Not):
        condition, values = _condition(kind, node.node)
        return f"NOT ({condition})", values
    if isinstance(node, Joined):
        operands = [_condition(kind, one) for one in node.nodes]
        joined = f" {node.operator} ".join(f"({condition})" for condition, _ in operands)
        return joined, [value for _, values in operands for value in values]
    if node.field == "labels" or node.field.startswith("labels."):
        return _label_condition(node)
    column = snake_case(node.field)
    if column not in fields_of(kind):
        raise _unknown_field("filter", node.field, kind, (*fields_of(kind), "labels.KEY"))
    if column in TIMES:
        return _time_condition(column, node)
    if node.operator not in ("=", "!=", ":"):
        raise _operator_error(node, "=, != and :")
    return _text_condition(f'"{column}"', node)


def _label_condition(node: Restriction) -> tuple[str, list[str]]:
    key = node.field.partition(".")[2].strip('"')
    matching = "position IN (SELECT position FROM labels WHERE key = ? AND {})"
    if not key:
        if node.operator != ":":
            raise _operator_error(node, "labels:KEY, labels.KEY:* and labels.KEY=VALUE")
        return matching.format("1"), [node.value]
    if node.operator not in ("=", "!=", ":"):
        raise _operator_error(node, "=, != and :")
    if node.operator == ":" and node.value == "*":
        return matching.format("1"), [key]
    condition, values = _text_condition("value", Restriction(node.field, "=", node.value))
    negation = "NOT " if node.operator == "!=" else ""
    return negation + matching.format(condition), [key, *values]


def _text_condition(column: str, node: Restriction) -> tuple[str, list[str]]:
    """Return a case-sensitive comparison; `*` matches any characters."""
    negation = "NOT " if node.operator == "!=" else ""
    if "*" not in node.value:
        return f"{negation}{column} = ?", [node.value]
    if node.operator == ":" and node.value == "*":
        return f"{column} != ?", [""]
    pattern = node.value.replace("[", "[[]").replace("?", "[?]")
    return f"{negation}{column} GLOB ?", [pattern]


def _time_condition(column: str, node: Restriction) -> tuple[str, list[str]]:
    if node.operator == ":":
        if node.value != "*":
            raise _operator_error(node, "=, !=, <, <=, >, >= and :*")
        return f'"{column}" != ?', [""]
    try:
        moment = fields.normal_time(node.value)
    except ValueError:
        moment = ""
    if not moment:
        raise invalid_argument(
            f'filter: {node.field} {node.operator} "{node.value}" is not a time; write one as '
            '"2026-01-31T12:00:00Z" (RFC 3339), or a date.'
        )
    is_set = "" if node.operator == "!=" else f"\"{column}\" != '' AND "
    return f'{is_set}"{column}" {node.operator} ?', [moment]


def _operator_error(node: Restriction, allowed: str) -> ApiError:
    return invalid_argument(
        f'filter: "{node.field}{node.operator}{node.value}" is not supported; {node.field} takes '
        f"{allowed}."
    )


def _unknown_field(parameter: str, field: str, kind: str, known: tuple[str, ...]) -> ApiError:
    return invalid_argument(
        f'{parameter}: {kind} has no field "{field}"; use one of {", ".join(known)}.'
    )
