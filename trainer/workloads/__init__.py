"""The workloads by name. To add one, write a module here and list it in WORKLOADS."""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trainer.workloads.base import Workload

WORKLOADS = {
    "cifar10": "trainer.workloads.cifar10",
    "mnist": "trainer.workloads.mnist",
    "taxi": "trainer.workloads.taxi",
}


def load_workload(name: str) -> "Workload":
    """Return a workload by name; ValueError lists the known names."""
    if name not in WORKLOADS:
        raise ValueError(f"{name!r} is not a workload; allowed are {', '.join(sorted(WORKLOADS))}")
    return importlib.import_module(WORKLOADS[name]).WORKLOAD
