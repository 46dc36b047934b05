"""The schema of a table: the columns, the label and the keys that its files must have.

Every part of preparing gets it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from components.prepare_examples.errors import DataError
from trainer.workloads import Table, Workload
from trainer.workloads.declarations.features import (
    Feature,
    Image,
    Number,
    Text,
    TimePart,
    Timestamp,
)
from trainer.workloads.declarations.labels import Binary, Label
from trainer.workloads.declarations.names import declared_names
from trainer.workloads.declarations.storage import FLOAT, INT, TEXT

if TYPE_CHECKING:
    from components.prepare_examples.statistics.states import Statistic

COLUMNS = ("features", "only_read", "label", "weight")
AS_DECLARED = ("key", "group_by", "aliases", "ignored", "missing", "header")
MAX_CLASSES = 20_000  # values of a label that the statistics list


@dataclass(frozen=True, kw_only=True)
class TableSchema:
    """A table's columns and label, and the rules by which it is read and split.

    Attributes:
        workload: the workload's name, for messages and files.
        columns: the columns in the order of the statistics.
        only_read: names of columns that are read for the label, but not written.
        label: the label, without its rule, which a worker takes from the workload.
        negative: the other value of a Binary label, as `binary_text` returns it; None: any.
        stored_as: the type of the label in examples, FLOAT, INT or TEXT; "": INT if all classes in
            the first rows are whole numbers, else TEXT.
        key: the column that identifies a row, or "". It is not stored, unless it is one of
            `columns`. Rows of one key are in the same split.
        group_by: columns that decide the split of files without the key.
        split_by: the column whose time or value decides the split, or "".
        aliases: other names of columns, by the name in the files.
        ignored: columns of the files to skip; `*` and `?` as in file names.
        missing: texts that mean a missing value in any column, besides the empty one.
        header: the columns of CSV files without a header.
        reference: of the workload, from which a worker loads the rule of the label.
    """

    workload: str
    columns: tuple[Feature, ...]
    label: Label
    negative: str | None = None
    stored_as: str = ""
    only_read: frozenset[str] = frozenset()
    key: str = ""
    group_by: tuple[str, ...] = ()
    split_by: str = ""
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

    def column(self, name: str) -> Feature | Label:
        """Return a column by its name, or the label; a key alone is any text."""
        if name == self.label.name and not self.rule_columns:
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

    def new_statistics(self) -> "dict[str, Statistic]":
        """Return empty statistics of the features and, last, of the label."""
        # The light step that computes the fingerprint imports this module: pyarrow takes 0.1 s.
        from components.prepare_examples.statistics.states import new_statistic

        is_list = self.label.is_list
        label = new_statistic(self.stored_as or TEXT, is_list=is_list, num_listed=MAX_CLASSES)
        columns = {
            c.name: new_statistic(
                c.storage,
                is_list=c.is_list,
                num_listed=c.num_listed,
                is_time=c in self.times,
            )
            for c in self.stored
            if c not in self.images
        }
        return {**columns, self.label.name: label}

    @cached_property
    def images(self) -> tuple[Image, ...]:
        """The columns of pictures."""
        return tuple(column for column in self.columns if isinstance(column, Image))

    def values_of(self, name: str) -> str:
        """Return the column of a block with the stored values of a column: of a picture, pixels."""
        return f"the pixels of {name}" if self.by_name.get(name) in self.images else name

    def key_of(self, name: str) -> str:
        """Return the column of a block that decides the split: of a picture, its file's digest."""
        return f"the bytes of {name}" if self.by_name.get(name) in self.images else name

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
        names = {
            column.name
            for column in self.columns
            if column.storage in (FLOAT, INT)
            and not (column.is_list or column in (*self.times, *self.parts))
        }
        is_number = self.stored_as in (FLOAT, INT) and not isinstance(self.label, Binary)
        return frozenset(names | ({self.label.name} if is_number else set()))

    @cached_property
    def texts(self) -> frozenset[str]:
        """The columns that are read as texts, including times and lists."""
        names = {column.name for column in self.columns} | {*self.keys}
        if not self.rule_columns:
            names.add(self.label.name)
        return frozenset(names - self.numbers - {part.name for part in self.parts})

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """The columns that may decide the split of a row."""
        return tuple(dict.fromkeys(filter(None, [self.key, *self.group_by, self.split_by])))

    @cached_property
    def known(self) -> frozenset[str]:
        """The names that columns of files can have here."""
        label = () if self.rule_columns else (self.label.name,)
        return frozenset((*self.by_name, *self.keys, *label))

    def named(self, names: Sequence[str]) -> list[str]:
        """Return the declared names of columns of files; other ones keep their names."""
        return declared_names(names, self.known, self.aliases)

    @cached_property
    def expected(self) -> tuple[str, ...]:
        """The columns that every file must have."""
        label = self.rule_columns or (self.label.name,)
        features = [column.name for column in self.columns if column not in self.parts]
        key = (self.key,) if self.key and not self.group_by else ()
        split_by = (self.split_by,) if self.split_by else ()
        return tuple(dict.fromkeys((*label, *features, *key, *split_by)))

    @cached_property
    def never_missing(self) -> tuple[str, ...]:
        """The columns without whose value a row is bad; the label has a check of its own."""
        required = [c.name for c in self.columns if c.is_required or c in self.images]
        return tuple(dict.fromkeys((*self.rule_columns, *required)))

    @property
    def rule_columns(self) -> tuple[str, ...]:
        """The columns from which a rule computes the label; () without one."""
        return self.label.rule_columns


def schema_of(workload: Workload, **changes: Any) -> TableSchema:
    """Return the schema of a workload's table, perhaps with changes of its declarations.

    Columns of the label's rule that are not declared are any numbers.

    Raises:
        DataError: a name is declared twice, or a part of a time lacks its time.
    """
    assert isinstance(workload, Table)
    fields = {name: getattr(workload, name) for name in (*COLUMNS, *AS_DECLARED)} | changes
    label, weight = fields["label"], fields["weight"]
    columns = [*fields["features"], *fields["only_read"]]
    unstored = {column.name for column in fields["only_read"]}
    known = {column.name for column in columns}
    if weight and weight not in known:
        columns.append(Number(weight, low=0, is_required=True))
        known.add(weight)
    for name in label.rule_columns:
        if name not in known:
            columns.append(Number(name))
            unstored.add(name)
    _check(columns, label)
    return TableSchema(
        workload=workload.name,
        columns=tuple(columns),
        label=replace(label, rule=None) if isinstance(label, Binary) else label,
        stored_as=label.storage,
        only_read=frozenset(unstored),
        reference=workload.reference,
        **{name: fields[name] for name in AS_DECLARED},
    )


def _check(columns: list[Feature], label: Label) -> None:
    names = [*(column.name for column in columns), label.name]
    for name in names:
        if names.count(name) > 1:
            both = "a feature and the label" if name == label.name else "two features"
            raise DataError(f"{name!r} is {both} of the workload; declare it once")
    times = [column.name for column in columns if isinstance(column, Timestamp)]
    for column in columns:
        if isinstance(column, TimePart) and column.of not in times:
            raise DataError(
                f"{column.name} is a part of {column.of!r}, which is no timestamp of the workload;"
                f" its timestamps are {', '.join(times) or 'none'}"
            )
