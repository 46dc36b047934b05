"""Features of a table: their columns' types and limits, and how a model sees them.

A missing value is an absent feature of the stored example, and is a category of its own, or an
extra 0/1 input beside a number.
"""

from dataclasses import KW_ONLY, dataclass

from trainer.workloads.declarations.decoding import Decoding
from trainer.workloads.declarations.written import NumberLimits, Written

# What the calendar says of a moment; weekday is 1 on Sunday.
TIME_PARTS = ("year", "month", "day", "weekday", "hour", "minute")

# The number of each unit in a second.
UNIX_UNITS = {"milliseconds": 1_000, "microseconds": 1_000_000}


@dataclass(frozen=True)
class Feature:
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

    @property
    def list_length(self) -> int:
        """The length of a list, padded with missing values; 0 for a single value."""
        return 0

    @property
    def is_list(self) -> bool:
        """True if an example may have several values."""
        return bool(self.list_length)


@dataclass(frozen=True)
class Number(Feature, Written, NumberLimits):
    """A number, stored as float32; the model gets it scaled to mean 0 and deviation 1.

    Attributes:
        low, high: the possible values; rows with others are quarantined. None: any.
        unit: for messages.
        is_logarithmic: scale log(1 + value) instead.
        buckets: also give the model the number of the value's quantile bucket, of this many.
        is_scaled: give the model the scaled number; False with buckets: only the bucket.
        is_clipped: limit values to the train split's 1st and 99th percentile before scaling.
        length: the numbers of a list, such as an embedding; 0 for a single number.
        separator: what separates the numbers of a list in a text column.
    """

    _: KW_ONLY
    low: float | None = None
    high: float | None = None
    unit: str = ""
    is_logarithmic: bool = False
    buckets: int = 0
    is_scaled: bool = True
    is_clipped: bool = False
    length: int = 0
    separator: str = ","

    @property
    def list_length(self) -> int:
        """The numbers of a list, 0 for a single number."""
        return self.length


@dataclass(frozen=True)
class Category(Feature, NumberLimits):
    """One of several values; by default texts, whose vocabulary is learnt from the train split.

    Texts are stored as bytes; whole numbers from `low` to `high` as int64.

    Attributes:
        values: the vocabulary; default: the most frequent values of the train split. Any other
            value is unknown.
        max_values: size of a vocabulary from the train split, at most.
        min_count: how often a value of such a vocabulary occurs at least.
        low, high: for whole numbers; rows with others are quarantined.
        unit: for messages.
        hashed: hash texts to this many categories, instead of a vocabulary.
        separator: what separates the values of a list in a text column; "" for single values.
        max_length: the values of a list that the model gets; further ones are left out.
    """

    _: KW_ONLY
    values: tuple[str, ...] = ()
    low: int | None = None
    high: int | None = None
    unit: str = ""
    hashed: int = 0
    max_values: int = 1000
    min_count: int = 5
    separator: str = ""
    max_length: int = 20

    @property
    def is_integer(self) -> bool:
        """True if the values are whole numbers."""
        return self.low is not None

    @property
    def list_length(self) -> int:
        """The length of a list, padded with missing values; 0 for a single value."""
        return self.max_length if self.separator else 0


@dataclass(frozen=True)
class Text(Feature):
    """Words, stored as bytes; the model gets the sum of the tokens' embeddings, scaled.

    Attributes:
        max_tokens: the size of the vocabulary: the most frequent tokens of the train split, in
            lower case and without punctuation.
        min_count: how often a token of the vocabulary occurs at least.
        max_length: the tokens of a text that the model gets; further ones are left out.
    """

    _: KW_ONLY
    max_tokens: int = 10_000
    min_count: int = 2
    max_length: int = 100


@dataclass(frozen=True)
class Timestamp(Feature, NumberLimits):
    """A moment, stored as int64 seconds of wall time since 1970.

    Attributes:
        format: of a text, as in `datetime.strptime`; default: Unix seconds and ISO 8601. Or the
            unit of Unix times, "milliseconds" or "microseconds". Months may have English, German,
            French or Spanish names.
        last_year: the last of the hundred years that `%y` means.
        time_zone: whose wall time is stored for a moment that names a zone or an offset.
        parts: the model gets these parts as categories (the year as a number), and the cyclic ones
            also as sine and cosine: "year", "month", "day", "weekday", "hour", "minute".
        low, high: the possible seconds; rows with others are quarantined.
        unit: for messages.
    """

    _: KW_ONLY
    format: str = ""
    last_year: int = 2068
    time_zone: str = "UTC"
    parts: tuple[str, ...] = ("month", "weekday", "hour")
    low: int | None = None
    high: int | None = None
    unit: str = ""


@dataclass(frozen=True)
class Image(Feature, Decoding):
    """A picture, stored as uint8 pixels; the column has the name of its file.

    The files are in the folders that `prepare.files` has beside the table; a name may lack the
    suffix, and may have folders in front. Models get a Keras input, float32 [height, width,
    channels] from 0 to 1. In training a picture is shifted by up to a sixteenth of its height.
    """


@dataclass(frozen=True)
class TimePart(Feature, NumberLimits):
    """A part of a Timestamp as a feature of its own, stored as int64 and computed in preparing.

    A column of this name in the files is not read.

    Attributes:
        of: the name of the Timestamp.
        part: one of the `parts` of a Timestamp.
        low, high: the possible values.
    """

    _: KW_ONLY
    of: str
    part: str
    low: int = 0
    high: int = 59
