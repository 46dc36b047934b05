"""Workloads: the public API of a user's workload file, and loading by name, module or path.

Importing this package imports neither TensorFlow nor Keras.
"""

from trainer.references import BUILT_IN
from trainer.workloads.base import Features, Recipe, Workload
from trainer.workloads.declarations.features import (
    Category,
    Feature,
    Image,
    Number,
    Text,
    TimePart,
    Timestamp,
)
from trainer.workloads.declarations.labels import Binary, Classes, Label, Multilabel, Regression
from trainer.workloads.declarations.sources import Download, Source, SourceFile
from trainer.workloads.declarations.split import Split
from trainer.workloads.encoding.images import flip, shift
from trainer.workloads.image_folder import ImageFolder
from trainer.workloads.loading import WorkloadError, load_workload
from trainer.workloads.models.wide_and_deep import combine
from trainer.workloads.records import Records, Values
from trainer.workloads.table import Table

__all__ = [
    "BUILT_IN",
    "Binary",
    "Category",
    "Classes",
    "Download",
    "Feature",
    "Features",
    "Image",
    "ImageFolder",
    "Label",
    "Multilabel",
    "Number",
    "Recipe",
    "Records",
    "Regression",
    "Source",
    "SourceFile",
    "Split",
    "Table",
    "Text",
    "TimePart",
    "Timestamp",
    "Values",
    "Workload",
    "WorkloadError",
    "combine",
    "flip",
    "load_workload",
    "shift",
]
