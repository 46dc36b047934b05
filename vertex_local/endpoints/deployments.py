"""Deployed models of endpoints: their processes, from the first start to the last stop."""

import re
import threading

from vertex_local.api.routes import Call
from vertex_local.api.service import Service
from vertex_local.endpoints import traffic
from vertex_local.endpoints.deployed_model import ServingProcess
from vertex_local.endpoints.server_requests import NotAnsweredError
from vertex_local.endpoints.serving_contract import ServingSpec, serving_spec
from vertex_local.errors import (
    ApiError,
    aborted,
    already_exists,
    cancelled,
    invalid_argument,
)
from vertex_local.json_types import Json
from vertex_local.machine.clock import now
from vertex_local.models import resource as models

CLOSE_DRAIN_SECONDS = 3.0
# DeployedModel.id: "1-10 characters, and valid characters are [0-9]"; "0" means the new one.
DEPLOYED_ID = re.compile(r"[0-9]{1,10}")


def new_id(service: Service, endpoint: Json, asked: str) -> str:
    """The id for a model to be deployed: the one `asked` for, if any, or a new one.

    Raises:
        ApiError: INVALID_ARGUMENT or ALREADY_EXISTS.
    """
    if not asked:
        return service.store.next_id()
    if not DEPLOYED_ID.fullmatch(asked) or asked == traffic.NEW:
        raise invalid_argument(
            f'deployedModel.id "{asked}" is not valid; it must be 1 to 10 digits, and not "0".'
        )
    if asked in [one["id"] for one in endpoint.get("deployedModels", [])]:
        raise already_exists(f'Deployed model "{asked}" of {endpoint["name"]}')
    return asked


def process_of(service: Service, name: str, deployed: Json) -> ServingProcess:
    """Return the process, not yet started, of a deployed model on the endpoint `name`."""
    return ServingProcess(
        lambda: spec_of(service, name, deployed),
        folder=service.root / "endpoints" / name.rpartition("/")[2] / deployed["id"],
        title=f"Deployed model {deployed['id']} "
        f"({deployed['displayName']}@{deployed['modelVersionId']})",
        launch=service.launch,
    )


def spec_of(service: Service, name: str, deployed: Json) -> ServingSpec:
    """Return what a deployed model runs.

    Raises:
        ApiError: FAILED_PRECONDITION or INVALID_ARGUMENT if it cannot be run here.
    """
    model = models.resolve(service, f"{deployed['model']}@{deployed['modelVersionId']}")
    endpoint_id = name.rpartition("/")[2]
    return serving_spec(
        model, endpoint_id=endpoint_id, deployed_id=deployed["id"], engine=service.engine
    )


def start(
    service: Service,
    name: str,
    *,
    deployed: Json,
    split: traffic.Split,
    process: ServingProcess,
    stop: threading.Event,
) -> None:
    """Starts the process, and only when it is healthy adds the deployed model to the endpoint."""
    key = _key(name, deployed["id"])
    if service.running.setdefault(key, process) is not process:
        raise already_exists(f'Deployed model "{deployed["id"]}" of {name}')

    def change(endpoint: Json) -> None:
        models.resolve(service, f"{deployed['model']}@{deployed['modelVersionId']}")
        new_split = traffic.after_deploy(endpoint, new_id=deployed["id"], asked=split)
        endpoint["trafficSplit"] = new_split
        endpoint["deployedModels"] = [*endpoint.get("deployedModels", []), deployed]
        endpoint["updateTime"] = now()

    try:
        process.start(interruption=lambda: _interruption(service, stop))
        if error := _interruption(service, stop):
            raise error
        service.store.update(name, change)
    except BaseException:
        process.stop(drain_seconds=0)
        service.running.pop(key, None)
        raise


def restart(service: Service, name: str, deployed: Json) -> None:
    """Starts the process of a model that an earlier service had deployed, in the background."""
    process = process_of(service, name, deployed)
    service.running[_key(name, deployed["id"])] = process
    process.keep()


def find(service: Service, name: str, deployed_id: str) -> ServingProcess:
    """The process of a deployed model.

    Raises:
        NotAnsweredError: it has just been undeployed.
    """
    process = service.running.get(_key(name, deployed_id))
    if not isinstance(process, ServingProcess):
        message = f"Deployed model {deployed_id} of {name} is not running."
        raise NotAnsweredError(message, was_sent=False)
    return process


def list_deployed_models(service: Service, call: Call) -> Json:
    """GET endpoints/E/deployedModels: how the process of each fares.

    An addition to Vertex AI's API, which has no such resource: there it answers 404.
    """
    name = f"{call.parent}/endpoints/{call.args['endpoint']}"
    deployed = service.store.get(name).get("deployedModels", [])
    found = [{"id": one["id"], **status(service, name, one["id"])} for one in deployed]
    return {"deployedModels": found} if found else {}


def status(service: Service, name: str, deployed_id: str) -> Json:
    """Return the state of a deployed model's process (`ServingProcess.status`)."""
    process = service.running.get(_key(name, deployed_id))
    return process.status() if isinstance(process, ServingProcess) else {"state": "STOPPING"}


def stop(service: Service, name: str, deployed_id: str) -> None:
    """Drains and ends the process of a deployed model; returns when it is gone."""
    process = service.running.get(_key(name, deployed_id))
    if process is not None:
        process.stop()
        service.running.pop(_key(name, deployed_id), None)


def stop_all(service: Service) -> None:
    """Ends the processes of all deployed models, at the same time."""
    serving = [one for one in list(service.running.values()) if isinstance(one, ServingProcess)]
    threads = [threading.Thread(target=_stop_at_close, args=(one,), daemon=True) for one in serving]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _stop_at_close(process: ServingProcess) -> None:
    process.stop(drain_seconds=CLOSE_DRAIN_SECONDS)


def _interruption(service: Service, stop: threading.Event) -> ApiError | None:
    if service.closing.is_set():
        return aborted("interrupted: the service stopped")
    return cancelled("The deployment was cancelled.") if stop.is_set() else None


def _key(name: str, deployed_id: str) -> str:
    return f"{name}/deployedModels/{deployed_id}"
