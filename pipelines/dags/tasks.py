"""Google's components, and ours in another role, under the names that their tasks have."""

import copy
import dataclasses
from typing import Any

from google_cloud_pipeline_components.v1.custom_job import CustomTrainingJobOp
from google_cloud_pipeline_components.v1.endpoint import ModelDeployOp
from google_cloud_pipeline_components.v1.model import ModelUploadOp

from components.release.component import release_model


def named(component: Any, name: str) -> Any:
    """Return a component whose task, folder and log have another name."""
    renamed = copy.copy(component)
    renamed.component_spec = dataclasses.replace(component.component_spec, name=name)
    return renamed


train_model = named(CustomTrainingJobOp, "train")
upload_model = named(ModelUploadOp, "upload-model")
deploy_model = named(ModelDeployOp, "deploy-model")
serve_known = named(release_model, "serve-known")
