"""Check before a run: Google's components."""

import importlib
import pkgutil
import re
from contextlib import nullcontext

import google_cloud_pipeline_components.v1 as google_components
import pytest
from google.protobuf import json_format
from kfp.dsl.base_component import BaseComponent

from vertex_local.errors import ApiError
from vertex_local.pipelines.record import canonical, check_tasks

# The other operations and pipelines of Google's components are refused.
RUN_HERE = {
    "CustomTrainingJobOp",
    "ModelUploadOp",
    "ModelDeleteOp",
    "EndpointCreateOp",
    "EndpointDeleteOp",
    "ModelDeployOp",
    "ModelUndeployOp",
    "ModelGetOp",
    "ModelBatchPredictOp",
    "VertexNotificationEmailOp",  # its mail is written into the log
    "HyperparameterTuningJobRunOp",
    "ForecastingPrepareDataForTrainOp",  # a lightweight Python component
}
NUM_OPERATIONS = 90


def operations() -> dict[str, BaseComponent]:
    """Return every component and pipeline of google_cloud_pipeline_components.v1."""
    found = {}
    prefix = f"{google_components.__name__}."
    for module in pkgutil.walk_packages(google_components.__path__, prefix):
        if module.ispkg:
            package = importlib.import_module(module.name)
            for name in getattr(package, "__all__", []):
                if isinstance(one := getattr(package, name), BaseComponent):
                    found[f"{module.name.removeprefix(prefix)}.{name}"] = one
    return found


@pytest.mark.filterwarnings("ignore")
@pytest.mark.timeout(120)
def test_each_of_googles_operations_is_supported_or_refused_by_name():
    found = operations()
    assert len(found) == NUM_OPERATIONS
    for name, operation in found.items():
        spec = canonical(json_format.MessageToDict(operation.pipeline_spec))
        [task, *others] = spec["root"]["dag"]["tasks"]
        words = "" if others else re.escape(f"\n  {task}: ")
        is_here = name.rpartition(".")[2] in RUN_HERE
        with nullcontext() if is_here else pytest.raises(ApiError, match=words):
            check_tasks(spec, {}, runs_host_commands=False)
