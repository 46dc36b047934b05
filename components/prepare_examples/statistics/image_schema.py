"""Schema and statistics of images as tensorflow-metadata's messages."""

from typing import TYPE_CHECKING

from components.prepare_examples.statistics.schema import to_facets
from trainer import Json

if TYPE_CHECKING:
    from tensorflow_metadata.proto.v0 import schema_pb2, statistics_pb2


def image_schema(statistics: Json) -> "schema_pb2.Schema":
    """Return the schema of the train split: pixels, and a label within its classes."""
    from tensorflow_metadata.proto.v0 import schema_pb2

    found = schema_pb2.Schema()
    label = statistics["splits"]["train"]["features"]["label"]
    for name, kind in (("image", schema_pb2.BYTES), ("label", schema_pb2.INT)):
        feature = found.feature.add(name=name, type=kind)
        feature.value_count.min = feature.value_count.max = 1
        feature.presence.min_fraction = 1.0
    domain = found.feature[1].int_domain
    domain.min, domain.max, domain.is_categorical = label["min"], label["max"], True
    return found


def image_facets(
    statistics: Json, *, num_bytes: int
) -> "statistics_pb2.DatasetFeatureStatisticsList":
    """Return all splits' statistics, one dataset each; every image has `num_bytes`."""
    from tensorflow_metadata.proto.v0 import statistics_pb2

    found = to_facets(statistics)
    for dataset in found.datasets:
        feature = dataset.features.add(type=statistics_pb2.FeatureNameStatistics.BYTES)
        feature.path.step.append("image")
        stats = feature.bytes_stats
        stats.min_num_bytes = stats.max_num_bytes = stats.avg_num_bytes = num_bytes
        common = stats.common_stats
        common.num_non_missing = common.tot_num_values = dataset.num_examples
        common.min_num_values = common.max_num_values = 1
        common.avg_num_values = 1.0
    return found
