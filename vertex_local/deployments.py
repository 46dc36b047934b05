"""Deployed models of endpoints: their processes, from the first start to the last stop."""

import logging
import re
import threading

from vertex_local import models, traffic
from vertex_local.errors import (
    ApiError,
    aborted,
    already_exists,
    cancelled,
    invalid_argument,
    unavailable,
)
from vertex_local.routes import Json
from vertex_local.service import Service, now
from vertex_local.serving import ServingProcess
from vertex_local.serving_spec import serving_spec

logger = logging.getLogger(__name__)

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


def process_of(service: Service, name: str, deployed: Json, model: Json) -> ServingProcess:
    """The process, not yet started, of a deployed model on the endpoint `name`."""
    endpoint_id = name.rpartition("/")[2]
    return ServingProcess(
        serving_spec(
            model, endpoint_id=endpoint_id, deployed_id=deployed["id"], engine=service.engine
        ),
        folder=service.root / "endpoints" / endpoint_id / deployed["id"],
        title=f"Deployed model {deployed['id']} ({model['displayName']}@{model['versionId']})",
        launch=service.launch,
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
        process.stop()
        service.running.pop(key, None)
        raise


def restart(service: Service, name: str, deployed: Json) -> None:
    """Starts the process of a model that an earlier service had deployed, in the background."""
    try:
        model = models.resolve(service, f"{deployed['model']}@{deployed['modelVersionId']}")
        process = process_of(service, name, deployed, model)
    except ApiError:
        logger.exception("Deployed model %s of %s cannot be started again", deployed["id"], name)
        return
    service.running[_key(name, deployed["id"])] = process
    threading.Thread(target=_restart, args=(service, process), daemon=True).start()


def find(service: Service, name: str, deployed_id: str) -> ServingProcess:
    """The process of a deployed model.

    Raises:
        ApiError: UNAVAILABLE if it could not be started again.
    """
    process = service.running.get(_key(name, deployed_id))
    if not isinstance(process, ServingProcess):
        raise unavailable(f"Deployed model {deployed_id} of {name} is not running.")
    return process


def stop(service: Service, name: str, deployed_id: str) -> None:
    """Ends the process of a deployed model; returns when it is gone."""
    process = service.running.pop(_key(name, deployed_id), None)
    if process is not None:
        process.stop()


def stop_all(service: Service) -> None:
    """Ends the processes of all deployed models, at the same time."""
    serving = [one for one in list(service.running.values()) if isinstance(one, ServingProcess)]
    threads = [threading.Thread(target=one.stop, daemon=True) for one in serving]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _restart(service: Service, process: ServingProcess) -> None:
    try:
        process.start(interruption=lambda: _interruption(service, threading.Event()))
    except Exception as error:
        logger.warning("A deployed model could not be started again: %s", error)


def _interruption(service: Service, stop: threading.Event) -> ApiError | None:
    if service.closing.is_set():
        return aborted("interrupted: the service stopped")
    return cancelled("The deployment was cancelled.") if stop.is_set() else None


def _key(name: str, deployed_id: str) -> str:
    return f"{name}/deployedModels/{deployed_id}"
