"""Labels: what a workload predicts. The kind of a label decides all that depends on it."""

from trainer.workloads.declarations.labels.base import Label
from trainer.workloads.declarations.labels.classes import Binary, Classes
from trainer.workloads.declarations.labels.multilabel import Multilabel
from trainer.workloads.declarations.labels.regression import Regression

__all__ = ["Binary", "Classes", "Label", "Multilabel", "Regression"]
