"""Trainyard: one pipeline from raw data to a served, versioned model, on Vertex AI or a laptop.

A file workload.py declares the data, the label and, if it has one of its own, the model:

    Table, ImageFolder, Records                     the kinds of data
    Number, Category, Text, Timestamp, TimePart, Image      columns of a table
    Values                                          features of existing TFRecords
    Regression, Binary, Classes, Multilabel         the label
    Split                                           the rule of the splits
    Download, Source, SourceFile                    files to fetch
    Recipe, Features, combine, flip, shift          parts of a model and of its training
    Workload, Feature, Label                        base classes, for types

A script or a notebook does what the commands do:

    check, run, submit                              a workload; the latter return a Run
    fit                                             `model.fit` of a script, for `new --script`
    load_workload, WorkloadError                    the object that a workload.py declares

Everything is imported when it is used; declarations import neither TensorFlow nor Keras.
"""

import importlib
from typing import TYPE_CHECKING, Any

from trainyard import resolution

resolution.install()

if TYPE_CHECKING:
    from trainer.workloads import *  # noqa: F403
    from trainyard.fitting import fit  # noqa: F401
    from trainyard.runs import Run, RunError, check, run, submit  # noqa: F401

_RUNS = ("Run", "RunError", "check", "run", "submit")


def __getattr__(name: str) -> Any:
    if name == "fit":
        return importlib.import_module("trainyard.fitting").fit
    if name in _RUNS:
        return getattr(importlib.import_module("trainyard.runs"), name)
    if name.startswith("_") or name not in __dir__():
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module("trainer.workloads"), name)


def __dir__() -> list[str]:
    return sorted(["fit", *_RUNS, *importlib.import_module("trainer.workloads").__all__])
