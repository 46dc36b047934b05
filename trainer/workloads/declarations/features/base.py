"""The base of features: a column of a table, from requests and examples to the model's inputs.

Each kind is a class in a file of its own. A missing value is an absent feature of the stored
example, and is a category of its own, or an extra 0/1 input beside a number.
"""

import abc
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np

from trainer.runtime.lazy import tf
from trainer.workloads.declarations.storage import FLOAT, INT, TEXT
from trainer.workloads.declarations.written import SPELLINGS, Written, plain_text
from trainer.workloads.encoding.columns import Column, TableFacts
from trainer.workloads.encoding.lookups import decode_text

_DTYPES = {FLOAT: "float32", INT: "int64"}


@dataclass(frozen=True)
class Feature(abc.ABC):
    """A column that the model may use.

    Attributes:
        name: the column's name.
        is_required: quarantine rows without a value; with `raw_inputs`, refuse requests, too.
        is_used: give the feature to the model; else it is only stored in the examples.
        missing: texts that mean a missing value, besides the empty one.
    """

    name: str
    _: KW_ONLY
    is_required: bool = False
    is_used: bool = True
    missing: tuple[str, ...] = ()

    is_spelled: ClassVar[bool] = True  # True and TRUE in texts are true

    @property
    def storage(self) -> str:
        """The type of the values in examples: FLOAT, INT, TEXT or WORDS."""
        return TEXT

    @property
    def dtype(self) -> Any:
        """The TensorFlow type of the values in examples."""
        return tf.as_dtype(_DTYPES.get(self.storage, "string"))

    @property
    def list_length(self) -> int:
        """The length of a list, padded with missing values; 0 for a single value."""
        return 0

    @property
    def is_list(self) -> bool:
        """True if an example may have several values."""
        return bool(self.list_length)

    @property
    def missing_value(self) -> Any:
        """The stored value that stands for a missing one."""
        return b""

    @property
    def origin(self) -> str:
        """The column of the data that the feature comes from."""
        return self.name

    @property
    def num_listed(self) -> int:
        """The number of values or tokens that the statistics list."""
        return 0

    def check(self, features: Sequence["Feature"]) -> None:
        """Raise ValueError if the declaration contradicts itself, or others of the table."""
        if not isinstance(self.name, str) or not self.name:
            raise ValueError(f"features: a feature has the name {self.name!r}; it must be a text")
        if self.name == "key":
            raise ValueError("features: 'key' is reserved for the key of a request; rename it")

    def most_categories(self) -> dict[str, int]:
        """Return the maximum numbers of categories, by the names that crosses use."""
        return {}

    # The model's inputs.

    @abc.abstractmethod
    def columns(self, facts: TableFacts) -> list[Column]:
        """Return the model's inputs that the feature becomes."""

    def column(self, kind: str, size: int, *, suffix: str = "", **computed: Any) -> Column:
        """Return an input of a model; `computed` are the further arguments of a Column."""
        name = self.name + suffix
        return Column(name=name, kind=kind, size=size, feature=self.name, **computed)

    def raw_column(self) -> Column:
        """Return the input that hands over the values as they are stored."""
        return self.column("raw", self.list_length or 1, dtype=self.dtype.name)

    def learn(self, source: Any, *, has_edges: bool) -> dict[str, Any]:
        """Return what TableFacts have of the feature, by the names of their fields.

        InsufficientError if the source does not have it. `has_edges`: the default model is linear
        in pieces of a number.
        """
        return {}

    # Examples.

    def tensor_spec(self) -> Any:
        """Return the tf.TensorSpec of a batch of raw values."""
        shape = [None, self.list_length] if self.is_list else [None]
        return tf.TensorSpec(shape, self.dtype, name=self.name)

    def example_spec(self) -> Any:
        """Return the specification for tf.io.parse_example."""
        if self.is_list:
            return tf.io.RaggedFeature(self.dtype)
        return tf.io.FixedLenFeature([], self.dtype, self.missing_value)

    def decoded(self, parsed: Any) -> Any:
        """Return raw values of what tf.io.parse_example returns."""
        if not self.is_list:
            return parsed
        shape = [None, self.list_length]
        return parsed.to_tensor(default_value=self.missing_value, shape=shape)

    # Requests.

    def parse(self, value: Any) -> np.ndarray:
        """Return the raw value of a field, None for a missing one; ValueError names the feature."""
        parsed = self.parse_list(value) if self.is_list else self.parse_one(value)
        if self.is_required and self.are_missing(parsed).all():
            raise ValueError(f"{self.name} is missing, and it is required")
        return parsed

    def parse_column(self, values: list[Any]) -> np.ndarray:
        """Return the raw values of the fields of many requests, as `parse` does, but faster."""
        column = None if self.is_list else self.plain_column(values)
        if column is None or (self.is_required and self.are_missing(column).any()):
            return np.stack([self.parse(value) for value in values])
        return column

    def plain_column(self, values: list[Any]) -> np.ndarray | None:
        """Return the raw values of plain numbers or texts; None if each must be looked at."""
        if not set(map(type, values)) <= {str, type(None)}:
            return None
        return np.asarray([self.stored_text(value) for value in values], object)

    def parse_one(self, value: Any) -> np.ndarray:
        """Return the raw value of a field that is not a list."""
        if not isinstance(value, str | None):
            raise ValueError(f"{self.name} is {value!r}; it must be a text")
        return np.asarray(self.stored_text(value), object)

    def parse_list(self, value: Any) -> np.ndarray:
        """Return the raw values of a list."""
        raise NotImplementedError

    def are_missing(self, values: np.ndarray) -> np.ndarray:
        """Return which raw values are missing."""
        return np.asarray(values == self.missing_value)

    def stored_text(self, value: str | None) -> bytes:
        """Return a text as preparing stores it, an empty one for a missing value."""
        plain = self.spelled(value or "")
        return b"" if self.is_marker(plain) else plain.encode()

    def spelled(self, text: str) -> str:
        """Return a text as preparing reads it."""
        return plain_text(text) if self.is_spelled else text.strip()

    def is_marker(self, value: Any) -> bool:
        """Return whether a value is one of the texts, or numbers, that mean a missing one."""
        if isinstance(value, str):
            return self.spelled(value) in ("", *map(self.spelled, self.missing))
        is_number = isinstance(value, int | float)
        return is_number and any(Written().number_of(text) == value for text in self.missing)

    def plain_spellings(self, terms: Sequence[str]) -> dict[str, str]:
        """Return the plain spelling of each text that `spelled` and missing markers replace.

        `terms` is the vocabulary, if there is one: most have neither true nor false, and so their
        spellings make no difference.
        """
        makes_difference = not terms or not {"true", "false"}.isdisjoint(terms)
        spellings = SPELLINGS if self.is_spelled and makes_difference else {}
        plain = {text: spellings.get(text, text) for text in (*spellings, *self.missing)}
        missing = {plain[text] for text in self.missing}
        return {text: "" if own in missing else own for text, own in plain.items()} | dict.fromkeys(
            missing, ""
        )

    def as_field(self, value: Any) -> Any:
        """Return the field of a request for a raw value; None for a missing one."""
        if not self.is_list:
            return self.as_item(value)
        items = [self.as_item(item) for item in value]
        return [item for item in items if item is not None] or None

    def as_item(self, value: Any) -> Any:
        """Return the field of a request for a raw value that is not a list."""
        return decode_text(value, feature=self.name) if value else None


def read_number(feature: Feature, value: Any, form: Written) -> int | float | None:
    """Return the number of a field, None for a missing one; ValueError names the feature."""
    if value is None or feature.is_marker(value):
        return None
    number = form.number_of(value) if isinstance(value, str) else value
    if number is not None and feature.is_marker(number):
        return None
    is_number = isinstance(number, int | float) and not isinstance(number, bool)
    if not is_number or number != number:  # NaN  # noqa: PLR0124
        raise ValueError(f"{feature.name} is {value!r}; it must be a number{form.example}")
    return number


def items_of(feature: Any, value: Any) -> list[Any]:
    """Return the items of a list, or of a text with separators; ValueError names the feature."""
    items = value.split(feature.separator) if isinstance(value, str) else value
    if not isinstance(items, list):
        raise ValueError(
            f"{feature.name} is {value!r}; it must be a list, or a text with {feature.separator!r}"
            " between the values"
        )
    return items


def check_limits(feature: Any) -> None:
    """Raise ValueError if the least value is above the greatest."""
    low, high = feature.low, feature.high
    if low is not None and high is not None and low > high:
        raise ValueError(f"{feature.name}: low is {low}, above high, {high}")


def check_positive(feature: Any, *settings: str) -> None:
    """Raise ValueError if one of the settings is below 1."""
    for setting in settings:
        if (value := getattr(feature, setting)) < 1:
            raise ValueError(f"{feature.name}: {setting} is {value}; it must be at least 1")
