"""Schema of the examples, in tensorflow-metadata's format, and anomalies against it."""

import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from components.prepare_examples.errors import DataError, Refuse, fail
from trainer import Json

if TYPE_CHECKING:
    from tensorflow_metadata.proto.v0 import schema_pb2

MAX_DOMAIN = 200
TYPES = {"STRING": 1, "INT": 2, "FLOAT": 3}  # of schema_pb2.FeatureType
ERROR, WARNING = "error", "warning"
TYPE_NAMES = {number: name for name, number in TYPES.items()}


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
    """Return a schema from its text format; DataError if the file is missing or invalid."""
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


@dataclass(frozen=True)
class Anomaly:
    """A finding; `split` and `feature` may be empty."""

    severity: str
    split: str
    feature: str
    reason: str

    def __str__(self) -> str:
        return f"{self.severity}: {self.split} {self.feature}: {self.reason}"


def find_anomalies(
    statistics: Json, schema: "schema_pb2.Schema", *, is_inferred: bool = False
) -> list[Anomaly]:
    """Return the anomalies of every split, errors first.

    If the schema `is_inferred` from the same data, deviations that chance explains are ignored,
    and new texts are only warnings: the model has an unknown category for them.
    """
    anomalies = [
        anomaly
        for split, content in statistics["splits"].items()
        for anomaly in _of_split(split, content["features"], schema, is_inferred=is_inferred)
    ]
    return sorted(anomalies, key=lambda anomaly: (anomaly.severity, anomaly.split, anomaly.feature))


def check(anomalies: list[Anomaly], *, block_on: str, refuse: Refuse = fail) -> None:
    """Refuse the anomalies that block: `error`, `warning` (both) or `none`."""
    blocking = {"none": (), "error": (ERROR,), "warning": (ERROR, WARNING)}[block_on]
    errors = [anomaly for anomaly in anomalies if anomaly.severity in blocking]
    if errors:
        lines = "\n".join(f"  {anomaly}" for anomaly in errors)
        refuse(
            DataError(
                f"examples are rejected ({len(errors)} anomalies; block_on is {block_on!r}):\n"
                f"{lines}\ncorrect the data or the schema, or set prepare.block_on=none to use them"
                " as they are"
            )
        )


def most_by_chance(total: int, share: float) -> int:
    """Return the largest plausible count among `total` of a kind whose expected share is `share`.

    It is three standard deviations above the mean, plus one for small numbers.
    """
    mean = total * share
    return math.floor(mean + 3 * math.sqrt(mean) + 1)


def _of_split(
    split: str, features: Json, schema: "schema_pb2.Schema", *, is_inferred: bool
) -> Iterator[Anomaly]:
    known = {feature.name: feature for feature in schema.feature}
    for name in features.keys() - known.keys():
        yield Anomaly(WARNING, split, name, "is not in the schema")
    for name, feature in known.items():
        if name not in features:
            yield Anomaly(ERROR, split, name, "is in the schema but not in the data")
            continue
        for severity, reason in _of_feature(features[name], feature, is_inferred=is_inferred):
            yield Anomaly(severity, split, name, reason)


def _of_feature(summary: Json, feature: Any, *, is_inferred: bool) -> Iterator[tuple[str, str]]:
    if feature.type and feature.type != TYPES[summary["type"]]:
        expected = TYPE_NAMES.get(feature.type, str(feature.type))
        yield ERROR, f"has the type {summary['type']}, the schema {expected}"
        return
    total = summary["num_present"] + summary["num_missing"]
    share = summary["num_present"] / total if total else 0.0
    allowed = most_by_chance(total, 1 - feature.presence.min_fraction) if is_inferred else 0
    if share < feature.presence.min_fraction and summary["num_missing"] > allowed:
        yield (
            ERROR,
            f"is present in {share:.4%}, the schema requires {feature.presence.min_fraction:.4%}",
        )
    if not summary["num_present"]:
        yield WARNING, "is never present"
        return
    if summary["num_unique"] == 1 and "tokens" not in summary:
        yield WARNING, f"is always {summary['top_values'][0][0]!r}"
    yield from _outside(summary, feature, is_inferred=is_inferred)


def _outside(summary: Json, feature: Any, *, is_inferred: bool) -> Iterator[tuple[str, str]]:
    """Yield findings on values outside the domain: a range of numbers, or a list of texts."""
    kind = feature.WhichOneof("domain_info")
    if summary["type"] != "STRING" and summary["min"] is None:
        return
    if kind in {"int_domain", "float_domain"}:
        domain = getattr(feature, kind)
        has_low, has_high = domain.HasField("min"), domain.HasField("max")
        if has_low and summary["min"] < domain.min:
            yield ERROR, f"has {summary['min']}, below the schema's {domain.min}"
        if has_high and summary["max"] > domain.max:
            yield ERROR, f"has {summary['max']}, above the schema's {domain.max}"
    if kind == "string_domain":
        yield from _new_texts(summary, feature, is_inferred=is_inferred)


def _new_texts(summary: Json, feature: Any, *, is_inferred: bool) -> Iterator[tuple[str, str]]:
    allowed = set(feature.string_domain.value)
    new = {value: count for value, count in summary["top_values"] if value not in allowed}
    if not new:
        return
    total = summary["num_values"] if summary.get("is_list") else summary["num_present"]
    share = 1 - sum(new.values()) / total
    least = feature.distribution_constraints.min_domain_mass
    if not feature.HasField("distribution_constraints"):
        least = 1.0
    severity = ERROR if share < least and not is_inferred else WARNING
    shown = ", ".join(map(repr, [*new][:3]))
    yield severity, f"has {len(new)} values that are not in the schema: {shown}"
