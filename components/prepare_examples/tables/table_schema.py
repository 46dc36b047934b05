"""The schema of a table: the columns, the label and the keys that its files must have.

Every part of preparing gets it, without the function of a label's rule, which a worker takes from
the workload.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from trainer.workloads.declarations.features import (
    Category,
    Feature,
    Image,
    Limits,
    Number,
    Text,
    TimePart,
    Timestamp,
)
from trainer.workloads.declarations.names import declared_names
from trainer.workloads.declarations.written import Written

FLOAT, INT, TEXT, WORDS = "float", "int", "text", "words"  # words are texts, counted by tokens
BINARY, CLASSES, MULTILABEL, REGRESSION = "binary", "classes", "multilabel", "regression"
MAX_CLASSES = 20_000  # values of a label that the statistics list


def kind_of(column: Feature) -> str:
    """Return how a column is stored: FLOAT (float32), INT (int64), TEXT or WORDS (bytes)."""
    if isinstance(column, Number):
        return FLOAT
    if isinstance(column, Text):
        return WORDS
    if isinstance(column, Timestamp | TimePart) or getattr(column, "is_integer", False):
        return INT
    return TEXT


def num_listed(column: Feature) -> int:
    """Return how many values or tokens the statistics list."""
    if isinstance(column, Text):
        return column.max_tokens
    return column.max_values if isinstance(column, Category) else 0


@dataclass(frozen=True, kw_only=True)
class LabelColumn(Written, Limits):
    """The label: a column, or the result of a rule over several columns.

    Attributes:
        name: its name in the examples, and in the files unless it has a rule.
        kind: BINARY, CLASSES, MULTILABEL or REGRESSION.
        positive: the value of a BINARY label's positive class.
        negative: the other value of a BINARY label, as `binary_text` returns it; None: any.
        is_one_against_rest: allow other values than one besides `positive`.
        values: the values of CLASSES or MULTILABEL; (): any.
        is_integer: the values of CLASSES are whole numbers; None: as in the first rows.
        separator: what separates the labels of MULTILABEL in a text.
        low, high, unit: of REGRESSION.
        rule_columns: the columns from which a rule computes a BINARY label.
        rule_text: the rule in words.
        missing: texts that mean a missing label.
    """

    name: str
    kind: str
    positive: Any = 1
    negative: str | None = None
    is_one_against_rest: bool = False
    values: tuple[Any, ...] = ()
    is_integer: bool | None = None
    separator: str = ""
    low: float | None = None
    high: float | None = None
    unit: str = ""
    rule_columns: tuple[str, ...] = ()
    rule_text: str = ""
    missing: tuple[str, ...] = ()

    @property
    def stored_kind(self) -> str:
        """The kind of its values in the examples: FLOAT, INT or TEXT."""
        if self.kind == REGRESSION:
            return FLOAT
        return INT if self.kind == BINARY or self.is_integer else TEXT

    @property
    def words(self) -> str:
        """The label in words, for the manifest."""
        kinds = {
            BINARY: f"1 if it is {self.positive!r}, else 0",
            CLASSES: "a class",
            MULTILABEL: "any number of labels",
            REGRESSION: f"a number {self.unit}".strip(),
        }
        return f"{self.name}: {self.rule_text or kinds[self.kind]}"


@dataclass(frozen=True, kw_only=True)
class TableSchema:
    """A table's columns and label, and the rules by which it is read and split.

    Attributes:
        workload: the workload's name, for messages and files.
        columns: the columns in the order of the statistics.
        only_read: names of columns that are read for the label, but not written.
        label: the label.
        key: the column that identifies a row, or "". It is not stored, unless it is one of
            `columns`. Rows of one key are in the same split.
        group_by: columns that decide the split of files without the key.
        aliases: other names of columns, by the name in the files.
        ignored: columns of the files to skip; `*` and `?` as in file names.
        missing: texts that mean a missing value in any column, besides the empty one.
        header: the columns of CSV files without a header.
        reference: of the workload, from which a worker loads the rule of the label.
    """

    workload: str
    columns: tuple[Feature, ...]
    label: LabelColumn
    only_read: frozenset[str] = frozenset()
    key: str = ""
    group_by: tuple[str, ...] = ()
    aliases: Mapping[str, str] = field(default_factory=dict)
    ignored: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    header: tuple[str, ...] = ()
    reference: str = ""

    def in_time_zone(self, zone: str) -> "TableSchema":
        """Return the schema with another time zone of all times."""
        columns = (
            replace(column, time_zone=zone) if isinstance(column, Timestamp) else column
            for column in self.columns
        )
        return replace(self, columns=tuple(columns))

    @cached_property
    def by_name(self) -> dict[str, Feature]:
        """The columns by name."""
        return {column.name: column for column in self.columns}

    def column(self, name: str) -> Feature | LabelColumn:
        """Return a column by its name, or the label; a key alone is any text."""
        if name == self.label.name and not self.label.rule_columns:
            return self.label
        return self.by_name.get(name) or Text(name)

    def markers(self, name: str) -> tuple[str, ...]:
        """Return the texts that mean a missing value of a column, besides the empty one."""
        return (*self.missing, *self.column(name).missing)

    @cached_property
    def stored(self) -> tuple[Feature, ...]:
        """The columns that are features of the examples."""
        return tuple(column for column in self.columns if column.name not in self.only_read)

    @cached_property
    def features(self) -> tuple[str, ...]:
        """The names of the stored columns."""
        return tuple(column.name for column in self.stored)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the features that have statistics, the label last."""
        counted = (column.name for column in self.stored if not isinstance(column, Image))
        return (*counted, self.label.name)

    @cached_property
    def images(self) -> tuple[Image, ...]:
        """The columns of pictures."""
        return tuple(column for column in self.columns if isinstance(column, Image))

    def values_of(self, name: str) -> str:
        """Return the column of a block with the stored values of a column: of a picture, pixels."""
        known = self.by_name.get(name)
        return f"the pixels of {name}" if isinstance(known, Image) else name

    def key_of(self, name: str) -> str:
        """Return the column of a block that decides the split: of a picture, its file's digest."""
        known = self.by_name.get(name)
        return f"the bytes of {name}" if isinstance(known, Image) else name

    @cached_property
    def times(self) -> tuple[Timestamp, ...]:
        """The columns of times."""
        return tuple(column for column in self.columns if isinstance(column, Timestamp))

    @cached_property
    def parts(self) -> tuple[TimePart, ...]:
        """The features that are computed from times."""
        return tuple(column for column in self.columns if isinstance(column, TimePart))

    @cached_property
    def numbers(self) -> frozenset[str]:
        """The columns that are read as numbers."""
        found = {
            column.name
            for column in self.columns
            if kind_of(column) in (FLOAT, INT)
            and not (column.is_list or isinstance(column, Timestamp | TimePart))
        }
        return frozenset(found | ({self.label.name} if self._has_number_label else set()))

    @cached_property
    def texts(self) -> frozenset[str]:
        """The columns that are read as texts, with those of times and lists."""
        found = {column.name for column in self.columns} | {*self.keys}
        if not self.label.rule_columns:
            found.add(self.label.name)
        return frozenset(found - self.numbers - {part.name for part in self.parts})

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """The columns that may decide the split of a row."""
        return tuple(dict.fromkeys((*filter(None, [self.key]), *self.group_by)))

    @cached_property
    def known(self) -> frozenset[str]:
        """The names that columns of files can have here."""
        label = () if self.label.rule_columns else (self.label.name,)
        return frozenset((*self.by_name, *self.keys, *label))

    def named(self, names: Sequence[str]) -> list[str]:
        """Return the declared names of columns of files; other ones keep their names."""
        return declared_names(names, self.known, self.aliases)

    @cached_property
    def expected(self) -> tuple[str, ...]:
        """The columns that every file must have."""
        label = self.label.rule_columns or (self.label.name,)
        features = [column.name for column in self.columns if not isinstance(column, TimePart)]
        key = (self.key,) if self.key and not self.group_by else ()
        return tuple(dict.fromkeys((*label, *features, *key)))

    @cached_property
    def never_missing(self) -> tuple[str, ...]:
        """The columns without whose value a row is bad; the label has a check of its own."""
        required = [c.name for c in self.columns if c.is_required or isinstance(c, Image)]
        return tuple(dict.fromkeys((*self.label.rule_columns, *required)))

    @property
    def _has_number_label(self) -> bool:
        label = self.label
        return label.kind == REGRESSION or (label.kind == CLASSES and label.is_integer is True)
