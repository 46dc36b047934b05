"""Addresses of resources' pages: in Google's console, or in the local service's."""

import os

from components.shared.vertex.api import EMULATOR_VARIABLE, TOKEN_VARIABLE
from components.shared.vertex.resource_name import ResourceName

GOOGLE = "https://console.cloud.google.com"
# By collection: the section of the local console, and the path in Google's.
PAGES = {
    "pipelineJobs": ("runs", "vertex-ai/locations/{location}/pipelines/runs/{id}"),
    "customJobs": ("jobs", "vertex-ai/locations/{location}/training/{id}"),
    "hyperparameterTuningJobs": ("tuning", "vertex-ai/locations/{location}/training/{id}"),
    "models": ("models", "vertex-ai/models/locations/{location}/models/{id}/versions/{version}"),
}


def console_page(name: str) -> str:
    """Return the address of the page of a run, a job or a model version."""
    resource = ResourceName.from_name(name)
    section, path = PAGES[resource.collection]
    if emulator := os.environ.get(EMULATOR_VARIABLE):
        return f"http://{emulator}/{section}/{resource.project}/{resource.location}/{resource.id}"
    return f"{GOOGLE}/{path.format(**vars(resource))}?project={resource.project}"


def to_open(page: str) -> str:
    """Return the address of a page with the token that the local service may require.

    A browser keeps the token as a cookie. It is a secret: not for files that others may read.
    """
    token = os.environ.get(TOKEN_VARIABLE) if page else ""
    return f"{page}{'&' if '?' in page else '?'}token={token}" if token else page
