"""Features of a table: their columns' types and limits, and how a model sees them."""

from trainer.workloads.declarations.features.base import Feature
from trainer.workloads.declarations.features.category import Category
from trainer.workloads.declarations.features.image import Image
from trainer.workloads.declarations.features.number import Number
from trainer.workloads.declarations.features.text import Text
from trainer.workloads.declarations.features.times import UNIX_UNITS, TimePart, Timestamp
from trainer.workloads.encoding.moments import TIME_PARTS

__all__ = [
    "TIME_PARTS",
    "UNIX_UNITS",
    "Category",
    "Feature",
    "Image",
    "Number",
    "Text",
    "TimePart",
    "Timestamp",
]
