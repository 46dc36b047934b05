"""Schema of the examples, in tensorflow-metadata's format."""

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from components.prepare_examples.errors import DataError
from trainer import Json

if TYPE_CHECKING:
    from tensorflow_metadata.proto.v0 import schema_pb2

MAX_DOMAIN = 200
TYPES = {"STRING": 1, "INT": 2, "FLOAT": 3}  # of schema_pb2.FeatureType


def infer_schema(statistics: Json) -> "schema_pb2.Schema":
    """Return the schema of the train split: types, presence, and the values of texts.

    A feature that is always present is required, as far as the number of examples proves it
    (`least_presence`). New texts are an error only above a tenth of all values (`min_domain_mass`
    0.9), because new companies are normal.
    """
    from tensorflow_metadata.proto.v0 import schema_pb2

    schema = schema_pb2.Schema()
    for name, summary in statistics["splits"]["train"]["features"].items():
        feature = schema.feature.add(name=name)
        feature.type = TYPES[summary["type"]]
        _count_values(feature, summary)
        feature.presence.min_fraction = least_presence(summary)
        is_category = summary["type"] == "STRING" and "tokens" not in summary
        if is_category and summary["num_unique"] <= MAX_DOMAIN:
            feature.string_domain.name = name
            feature.string_domain.value.extend(sorted(value for value, _ in summary["top_values"]))
            feature.distribution_constraints.min_domain_mass = 0.9
    return schema


def _count_values(feature: Any, summary: Json) -> None:
    """Set how many values an example has; of lists of one length that length, of others any."""
    counts = feature.value_count
    if not summary.get("is_list"):
        counts.min = counts.max = 1
    elif summary["min_length"] is not None:
        counts.min = 0
        if summary["min_length"] == summary["max_length"]:
            counts.min = counts.max = summary["max_length"]


def least_presence(summary: Json) -> float:
    """Return the least share of examples with a feature, at 95 % confidence; 0 if some lack it.

    If all of n have it, up to 3 / n of all examples may lack it (the rule of three).
    """
    return 0.0 if summary["num_missing"] else max(0.0, 1 - 3 / max(summary["num_present"], 1))


def read_schema(path: str | Path) -> "schema_pb2.Schema":
    """Return a schema from its text format.

    Raises:
        DataError: the file is missing or invalid.
    """
    from google.protobuf import text_format
    from tensorflow_metadata.proto.v0 import schema_pb2

    try:
        return text_format.Parse(Path(path).read_text(), schema_pb2.Schema())
    except OSError as error:
        raise DataError(f"cannot read the schema {path}: {error.strerror}") from error
    except (text_format.ParseError, UnicodeDecodeError) as error:
        raise DataError(
            f"{path} is not a schema in tensorflow-metadata's text format: {error}"
        ) from error


def write_schema(schema: "schema_pb2.Schema", path: Path) -> str:
    """Write a schema in text format; return the SHA-256 of the text."""
    from google.protobuf import text_format

    text = text_format.MessageToString(schema)
    path.write_text(text)
    return hashlib.sha256(text.encode()).hexdigest()
