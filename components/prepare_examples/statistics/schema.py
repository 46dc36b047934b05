"""Schema and statistics of tables as tensorflow-metadata's messages."""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from components.prepare_examples.errors import DataError
from trainer import Json

if TYPE_CHECKING:
    from tensorflow_metadata.proto.v0 import schema_pb2, statistics_pb2

MAX_DOMAIN = 200


def infer_schema(statistics: Json) -> "schema_pb2.Schema":
    """Return the schema of the train split: types, presence, and the values of texts.

    A feature that is always present is required, as far as the number of examples proves it
    (`least_presence`). New texts are an error only above a tenth of all values (`min_domain_mass`
    0.9), because new companies are normal.
    """
    from tensorflow_metadata.proto.v0 import schema_pb2

    schema = schema_pb2.Schema()
    for name, found in statistics["splits"]["train"]["features"].items():
        feature = schema.feature.add(name=name)
        feature.type = schema_pb2.FeatureType.Value(_type(found["type"]))
        _count_values(feature, found)
        feature.presence.min_fraction = least_presence(found)
        is_category = found["type"] == "STRING" and "tokens" not in found
        if is_category and found["num_unique"] <= MAX_DOMAIN:
            feature.string_domain.name = name
            feature.string_domain.value.extend(sorted(value for value, _ in found["top_values"]))
            feature.distribution_constraints.min_domain_mass = 0.9
    return schema


def _count_values(feature: Any, found: Json) -> None:
    """Set how many values an example has; of lists of one length that length, of others any."""
    counts = feature.value_count
    if not found.get("is_list"):
        counts.min = counts.max = 1
    elif found["min_length"] is not None:
        counts.min = 0
        if found["min_length"] == found["max_length"]:
            counts.min = counts.max = found["max_length"]


def least_presence(found: Json) -> float:
    """Return the least share of examples with a feature, at 95 % confidence; 0 if some lack it.

    If all of n have it, up to 3 / n of all examples may lack it (the rule of three).
    """
    return 0.0 if found["num_missing"] else max(0.0, 1 - 3 / max(found["num_present"], 1))


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


def write_schema(schema: "schema_pb2.Schema", path: Path) -> None:
    """Write a schema in text format."""
    from google.protobuf import text_format

    path.write_text(text_format.MessageToString(schema))


def to_facets(statistics: Json) -> "statistics_pb2.DatasetFeatureStatisticsList":
    """Return all splits' statistics, one dataset each, for Facets and TFDV."""
    from tensorflow_metadata.proto.v0 import statistics_pb2

    found = statistics_pb2.DatasetFeatureStatisticsList()
    for split, content in statistics["splits"].items():
        dataset = found.datasets.add(name=split, num_examples=content["num_examples"])
        for name, feature in content["features"].items():
            _add_feature(dataset, name, feature)
    return found


def _add_feature(dataset: Any, name: str, found: Json) -> None:
    from tensorflow_metadata.proto.v0 import statistics_pb2

    feature = dataset.features.add()
    feature.path.step.append(name)
    feature.type = statistics_pb2.FeatureNameStatistics.Type.Value(found["type"])
    is_text = found["type"] == "STRING"
    specific = feature.string_stats if is_text else feature.num_stats
    common = specific.common_stats
    common.num_non_missing, common.num_missing = found["num_present"], found["num_missing"]
    common.tot_num_values = found.get("num_values", found["num_present"])
    if found["num_present"]:
        common.min_num_values = found.get("min_length", 1)
        common.max_num_values = found.get("max_length", 1)
        common.avg_num_values = common.tot_num_values / found["num_present"]
    if is_text:
        _add_texts(specific, found)
    elif found["quantiles"]:
        _add_numbers(specific, found)


def _add_texts(stats: Any, found: Json) -> None:
    stats.unique = found["num_unique"]
    for rank, (value, count) in enumerate(found["top_values"]):
        stats.top_values.add(value=value, frequency=count)
        stats.rank_histogram.buckets.add(
            low_rank=rank, high_rank=rank, label=value, sample_count=count
        )


def _add_numbers(stats: Any, found: Json) -> None:
    from tensorflow_metadata.proto.v0 import statistics_pb2

    stats.mean, stats.std_dev, stats.num_zeros = found["mean"], found["std"], found["num_zeros"]
    stats.min, stats.median, stats.max = found["min"], found["quantiles"][50], found["max"]
    equal = stats.histograms.add(type=statistics_pb2.Histogram.STANDARD)
    edges = found["histogram"]["edges"]
    for low, high, count in zip(edges, edges[1:], found["histogram"]["counts"], strict=False):
        equal.buckets.add(low_value=low, high_value=high, sample_count=count)
    deciles = stats.histograms.add(type=statistics_pb2.Histogram.QUANTILES)
    for low, high in zip(found["quantiles"][:-1:10], found["quantiles"][10::10], strict=True):
        deciles.buckets.add(low_value=low, high_value=high, sample_count=found["num_present"] / 10)


def _type(kind: str) -> str:
    return {"STRING": "BYTES"}.get(kind, kind)


def digest(schema_text: str) -> str:
    """Return the SHA-256 of a schema's text."""
    return hashlib.sha256(schema_text.encode()).hexdigest()


def domains(schema: "schema_pb2.Schema") -> Mapping[str, Any]:
    """Return the schema's features by name."""
    return {feature.name: feature for feature in schema.feature}
