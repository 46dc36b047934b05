"""Deployed models of endpoints and their prediction servers."""

import threading

from vertex_local import Json
from vertex_local.api.resource_names import ResourcePath
from vertex_local.api.routes import Call
from vertex_local.api.service import Service
from vertex_local.endpoints import record as traffic
from vertex_local.endpoints.deployed_model import ServingProcess
from vertex_local.endpoints.server_requests import NotAnsweredError
from vertex_local.endpoints.serving_contract import ServingSpec, serving_spec
from vertex_local.errors import ApiError, already_exists, invalid_argument
from vertex_local.machine.clock import now
from vertex_local.models import resource as models

CLOSE_DRAIN_SECONDS = 3.0
# DeployedModel.id: "1-10 characters, and valid characters are [0-9]"; "0" means the new one.


def new_id(service: Service, endpoint: Json, requested: str) -> str:
    """Return the id for a model to deploy: the `requested` one, or a new one if that is empty.

    Raises:
        ApiError: INVALID_ARGUMENT or ALREADY_EXISTS.
    """
    if not requested:
        return service.store.next_id()
    if requested == traffic.NEW:
        raise invalid_argument('deployedModel.id must not be "0", the new model in a trafficSplit.')
    if requested in [one["id"] for one in endpoint.get("deployedModels", [])]:
        raise already_exists(f'Deployed model "{requested}" of {endpoint["name"]}')
    return requested


def process_of(service: Service, name: str, deployed: Json) -> ServingProcess:
    """Return the process of a deployed model on the endpoint `name`, not yet started."""
    return ServingProcess(
        lambda: spec_of(service, name, deployed),
        folder=service.root / "endpoints" / ResourcePath.from_name(name).id / deployed["id"],
        title=title_of(deployed),
        launch=service.launch,
    )


def spec_of(service: Service, name: str, deployed: Json) -> ServingSpec:
    """Return the serving spec of a model deployed to an endpoint, or for a batch prediction.

    Raises:
        ApiError: FAILED_PRECONDITION or INVALID_ARGUMENT if it cannot run on this machine.
    """
    model = models.resolve(service, f"{deployed['model']}@{deployed['modelVersionId']}")
    if "artifactUri" in model:
        model = {**model, "artifactUri": str(models.storage_of(service, model))}
    endpoint_id = ResourcePath.from_name(name).id
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
    """Start the process; once it is healthy, add the deployed model to the endpoint."""
    key = key_of(name, deployed["id"])
    if service.running.setdefault(key, process) is not process:
        raise already_exists(f'Deployed model "{deployed["id"]}" of {name}')

    def change(endpoint: Json) -> None:
        models.resolve(service, f"{deployed['model']}@{deployed['modelVersionId']}")
        new_split = traffic.after_deploy(endpoint, new_id=deployed["id"], requested=split)
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
    """Start the process of a model deployed by an earlier service, in the background."""
    process = process_of(service, name, deployed)
    service.running[key_of(name, deployed["id"])] = process
    process.keep()


def find(service: Service, name: str, deployed_id: str) -> ServingProcess:
    """Return the process of a deployed model.

    Raises:
        NotAnsweredError: It has just been undeployed.
    """
    process = service.running.get(key_of(name, deployed_id))
    if not isinstance(process, ServingProcess):
        message = f"Deployed model {deployed_id} of {name} is not running."
        raise NotAnsweredError(message, was_sent=False)
    return process


def list_deployed_models(service: Service, call: Call) -> Json:
    """GET endpoints/E/deployedModels: the state of each prediction server.

    An addition to Vertex AI's API, which returns 404 here.
    """
    name = call.name("endpoints")
    deployed = service.store.get(name).get("deployedModels", [])
    found = [{"id": one["id"], **status(service, name, one["id"])} for one in deployed]
    return {"deployedModels": found} if found else {}


def status(service: Service, name: str, deployed_id: str) -> Json:
    """Return the state of a deployed model's process (`ServingProcess.status`)."""
    process = service.running.get(key_of(name, deployed_id))
    return process.status() if isinstance(process, ServingProcess) else {"state": "STOPPING"}


def stop(service: Service, name: str, deployed_id: str) -> None:
    """Drain and end the process of a deployed model; return once it has ended."""
    process = service.running.get(key_of(name, deployed_id))
    if process is not None:
        process.stop()
        service.running.pop(key_of(name, deployed_id), None)


def stop_all(service: Service) -> None:
    """End the processes of all deployed models in parallel."""
    serving = [one for one in list(service.running.values()) if isinstance(one, ServingProcess)]
    drain = {"drain_seconds": CLOSE_DRAIN_SECONDS}
    threads = [threading.Thread(target=one.stop, kwargs=drain, daemon=True) for one in serving]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _interruption(service: Service, stop: threading.Event) -> ApiError | None:
    if service.closing.is_set():
        return ApiError("ABORTED", "interrupted: the service stopped")
    return ApiError("CANCELLED", "The deployment was cancelled.") if stop.is_set() else None


def key_of(name: str, deployed_id: str) -> str:
    """Return the key of a deployed model's process in `Service.running`."""
    return f"{name}/deployedModels/{deployed_id}"


def title_of(deployed: Json) -> str:
    """Return the name of a deployed model in messages."""
    return (
        f"Deployed model {deployed['id']} ({deployed['displayName']}@{deployed['modelVersionId']})"
    )
