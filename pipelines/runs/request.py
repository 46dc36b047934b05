"""The request that starts a pipeline run, and the call that sends it.

It equals the request of the SDK's `PipelineJob.submit` (a test compares them), without the ten
seconds of the SDK's imports.
"""

import copy
import datetime
import logging
import os
import re
import secrets
from collections.abc import Sequence
from typing import TYPE_CHECKING

from components.run_result.settings import READABLE_ADDRESS, WEBHOOK, parameters_of, without_path
from components.shared.text.json_object import present
from components.shared.vertex.api import EMULATOR_VARIABLE, VertexApi
from components.shared.vertex.labels import RUN_LABEL
from components.shared.vertex.resource_name import to_open
from components.shared.vertex.task_details import tasks_in
from trainer import Json

if TYPE_CHECKING:
    from pipelines.package.spec import Package

logger = logging.getLogger(__name__)

RUN_NAME = re.compile(r"[a-z][-a-z0-9]{0,62}")  # also the value of a label


def new_run_name(prefix: str) -> str:
    """Return a name that sorts by time and is used once: `mnist-20261121-093015-4f1c`."""
    moment = datetime.datetime.now(datetime.UTC)
    return f"{prefix[:42]}-{moment:%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"  # 63 are allowed


def run_request(
    package: "Package",
    *,
    run: str,
    pipeline_root: str,
    parameters: Json,
    labels: dict[str, str] | None = None,
    service_account: str = "",
    use_cache: bool = True,
) -> Json:
    """Return the body of `POST …/pipelineJobs`: a PipelineJob of Vertex AI's REST API.

    Without `use_cache` every task runs; with it, tasks keep the caching options of the package.
    https://cloud.google.com/vertex-ai/docs/reference/rest/v1/projects.locations.pipelineJobs
    """
    return present(
        {
            "displayName": run,
            "pipelineSpec": package.spec if use_cache else _without_cache(package.spec),
            "runtimeConfig": {"gcsOutputDirectory": pipeline_root, "parameterValues": parameters},
            "labels": {**(labels or {}), RUN_LABEL: run},
            "serviceAccount": service_account,
            "templateUri": package.address,
        }
    )


def warn_of_readable_address(job: Json) -> None:
    """Warn that the address of a webhook is stored with a PipelineJob."""
    url = str(parameters_of(job).get(WEBHOOK, ""))
    if re.fullmatch(READABLE_ADDRESS, url):
        logger.warning(
            "the address %s of %s is stored readably in the run and its logs; if it is secret,"
            " give env:NAME or a secret of Secret Manager (docs/runs.md, Alerts)",
            without_path(url),
            WEBHOOK,
        )


def create_run(api: VertexApi, request: Json, *, run: str) -> Json:
    """Create a run and return it; a retried request creates no second one."""
    jobs = f"{api.parent}/pipelineJobs"
    return api.post(f"{jobs}?pipelineJobId={run}", request, find=lambda: api.find(f"{jobs}/{run}"))


def comparison_url(names: Sequence[str]) -> str:
    """Return the address of the page that compares runs; "" on Vertex AI, which has none."""
    emulator = os.environ.get(EMULATOR_VARIABLE)
    marks = "&".join(f"run{number}={name}" for number, name in enumerate(names, start=1))
    return to_open(f"http://{emulator}/compare?{marks}") if emulator else ""


def _without_cache(spec: Json) -> Json:
    spec = copy.deepcopy(spec)
    for _, task in tasks_in(spec):
        task["cachingOptions"] = {"enableCache": False}
    return spec
