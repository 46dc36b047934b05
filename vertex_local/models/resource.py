"""Models: the registry of versions, with aliases and a copy of each version's artifact folder."""

import re
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from vertex_local import Json
from vertex_local.api import etags, operations, protos
from vertex_local.api.fields import VERSIONS
from vertex_local.api.pages import list_page
from vertex_local.api.resource_names import ResourcePath
from vertex_local.api.routes import Call, routes_of
from vertex_local.api.service import Service
from vertex_local.errors import already_exists, failed_precondition, invalid_argument, not_found
from vertex_local.machine import buckets, lost_and_found
from vertex_local.machine.clock import now
from vertex_local.machine.files import local_path, path_problem
from vertex_local.models import artifacts
from vertex_local.models import record as registry

MODEL_UPDATES = ("displayName", "description", "labels")
VERSION_UPDATES = ("versionDescription", "labels")
OnStored = Callable[[str, Json], None]


def resolve(service: Service, name: str) -> Json:
    """Return the model version of `…/models/5`, `…/models/5@2` or `…/models/5@alias`.

    Raises:
        ApiError: NOT_FOUND.
    """
    model_name, _, reference = name.partition("@")
    with service.store.lock:
        record = service.store.get(model_name)
        return registry.view(record, _version(service, record, reference))


def upload(service: Service, call: Call) -> Json:
    """POST models:upload: copy the artifact folder and add a model or a version of one."""
    request = protos.parse("UploadModelRequest", {**call.body, "parent": call.parent})
    name, work = plan_upload(service, request)
    return operations.start(service, name, "UploadModel", work)


def plan_upload(
    service: Service, request: Json, *, on_stored: OnStored = lambda _name, _version: None
) -> tuple[str, operations.Work]:
    """Check an UploadModelRequest; return the model's name, and the work that uploads it.

    `on_stored` is called with the name and the new version, in the transaction that stores them.

    Raises:
        ApiError: INVALID_ARGUMENT, NOT_FOUND or ALREADY_EXISTS.
    """
    model = request["model"]
    parent_name = request.get("parentModel", "").partition("@")[0]
    _check_upload(service, request)
    uri = model.get("artifactUri", "")
    source = artifacts.local_folder(uri, root=service.root) if uri else None
    name = parent_name or f"{request['parent']}/models/{_new_id(service, request)}"

    def work(cancelled: threading.Event) -> Json:
        version = _store_version(service, name, model, source, on_stored, is_new=not parent_name)
        return {"model": name, "modelVersionId": version["versionId"]}

    return name, work


def get(service: Service, call: Call) -> Json:
    """GET models/M[@V], with its deployed models."""
    model = resolve(service, call.name("models"))
    places = [
        {"endpoint": endpoint["name"], "deployedModelId": deployed["id"]}
        for endpoint, deployed in _deployments(service, model["name"], [model["versionId"]])
    ]
    return {**model, "deployedModels": places} if places else model


def list_models(service: Service, call: Call) -> Json:
    """GET models: the default version of each."""
    return list_page(
        service,
        call,
        "models",
        view=lambda record: registry.view(record, _version(service, record, "")),
    )


def list_versions(service: Service, call: Call) -> Json:
    """GET models/M:listVersions."""
    record = service.store.get(call.name("models").partition("@")[0])
    view = partial(registry.view, record)
    page = list_page(service, call, VERSIONS, parent=record["name"], view=view)
    return {"models": page.pop(VERSIONS), **page}


def update(service: Service, call: Call) -> Json:
    """PATCH models/M or models/M@V: change the fields in `updateMask`.

    "etag: Used to perform consistent read-modify-write updates" (Model's reference).
    """
    # "models/123@-, refers to a model update" (UpdateModelRequest)
    name = call.name("models").removesuffix("@-")
    model_name, _, reference = name.partition("@")
    fields = call.update_mask(VERSION_UPDATES if reference else MODEL_UPDATES)
    given = protos.parse("Model", call.body, fields=fields)

    values = {field: given.get(field, {} if field == "labels" else "") for field in fields}

    def change(record: Json) -> None:
        version = _version(service, record, reference)
        etags.check(given, registry.etag(record, version), name)
        record["updateTime"] = now()
        if reference:
            version |= {**values, "versionUpdateTime": record["updateTime"]}
            service.store.update(version["name"], lambda stored: stored.update(version))
            registry.set_version_labels(record, version)
        else:
            record.update(values)

    service.store.update(model_name, change)
    return resolve(service, name)


def merge_version_aliases(service: Service, call: Call) -> Json:
    """POST models/M@V:mergeVersionAliases: move the alias `golden` here, remove `-golden`."""
    request = protos.parse("MergeVersionAliasesRequest", {**call.body, "name": call.name("models")})
    model_name, reference = _with_version(call)
    with service.store.atomic():
        version = _version(service, service.store.get(model_name), reference)
        version["versionUpdateTime"] = moment = now()

        def change(record: Json) -> None:
            registry.merge_aliases(record, version, request["versionAliases"])
            record["updateTime"] = moment

        service.store.update(model_name, change)
        service.store.update(version["name"], lambda stored: stored.update(version))
        return resolve(service, f"{model_name}@{version['versionId']}")


def delete(service: Service, call: Call) -> Json:
    """DELETE models/M: remove the model with all its versions, if none is deployed."""
    name = call.name("models")
    if "@" in name:
        raise invalid_argument(f"{name} names a version; use DELETE {name}:deleteVersion.")
    folder = service.root / "models" / service.store.get(name)["folder"]
    with lost_and_found.deletion(service.root, folder), service.store.atomic():
        record = service.store.get(name)
        version_ids = _version_ids(service, name)
        _refuse_deployed(service, name, version_ids)
        for version_id in version_ids:
            _delete_version(service, record, version_id)
        service.store.delete(name)
        return operations.deleted(service, name)


def delete_version(service: Service, call: Call) -> Json:
    """DELETE models/M@V:deleteVersion: remove one version that is not deployed."""
    model_name, reference = _with_version(call)
    record = service.store.get(model_name)
    version_id = _version(service, record, reference)["versionId"]
    folder = service.root / "models" / record["folder"] / version_id

    def change(record: Json) -> None:
        _refuse_deployed(service, model_name, [version_id])
        version = _version(service, record, version_id)
        others = [other for other in _version_ids(service, model_name) if other != version_id]
        newest = _version(service, record, others[-1]) if others else None
        registry.remove_version(record, version, newest=newest)
        record["updateTime"] = now()
        _delete_version(service, record, version_id)

    with lost_and_found.deletion(service.root, folder), service.store.atomic():
        service.store.update(model_name, change)
        return operations.deleted(service, model_name)


def copy(service: Service, call: Call) -> Json:
    """POST models:copy: copy a version, with its artifacts, to a new model or version."""
    request = protos.parse("CopyModelRequest", {**call.body, "parent": call.parent})
    source_name = request.pop("sourceModel")
    if not source_name.startswith(f"projects/{call.args['project']}/"):
        raise invalid_argument(f"sourceModel {source_name} is of another project.")
    source = resolve(service, source_name)
    folder = {"artifactUri": str(storage_of(service, source))} if "artifactUri" in source else {}
    model = protos.parse("Model", {**source, **folder, "versionAliases": []})
    name, work = plan_upload(service, {**request, "model": model})
    return operations.start(service, name, "CopyModel", work)


def export(service: Service, call: Call) -> Json:
    """POST models/M@V:export: copy the artifacts of a version to a folder of a bucket."""
    name = call.name("models")
    request = protos.parse("ExportModelRequest", {**call.body, "name": name})
    config, model = request["outputConfig"], resolve(service, name)
    kinds = [kind["id"] for kind in model.get("supportedExportFormats", [])]
    if config.get("exportFormatId") not in kinds:
        raise invalid_argument(f"outputConfig.exportFormatId must be one of {kinds} for {name}.")
    prefix = config.get("artifactDestination", {}).get("outputUriPrefix", "")
    title = re.sub(r"[^\w.-]", "_", model["displayName"])
    uri = f"{prefix.rstrip('/')}/model-export-{title}-{now()}"
    if not (target := local_path(uri)):
        problem = path_problem(uri)
        raise invalid_argument(f'artifactDestination.outputUriPrefix "{prefix}" {problem}.')

    def work(cancelled: threading.Event) -> Json:
        shutil.copytree(storage_of(service, model), target)
        return {}

    output = {"outputInfo": {"artifactOutputUri": uri}}
    return operations.start(service, name, "ExportModel", work, metadata=output)


def storage_of(service: Service, model: Json) -> Path:
    """Return the folder with the copy of a version's artifacts."""
    record = service.store.get(model["name"])
    return Path(service.root, "models", record["folder"], model["versionId"])


def recover(service: Service) -> None:
    """Clear the folders of interrupted uploads and deletions, and mend what damages have left.

    If a model has lost its default version, the newest becomes the default.
    """
    known = set()
    for record in service.store.list_kind("models"):
        name, version_ids = record["name"], _version_ids(service, record["name"])
        known |= {service.root / "models" / record["folder"] / one for one in version_ids}
        if not version_ids:
            service.store.keep_aside(name, "has no version")
        elif record["aliases"].get(registry.DEFAULT_ALIAS) not in version_ids:
            newest = _version(service, record, version_ids[-1])
            aliases = [registry.DEFAULT_ALIAS]
            service.store.update(
                name, partial(registry.move_aliases, version=newest, aliases=aliases)
            )
    artifacts.clean(service.root, known)


def _check_upload(service: Service, request: Json) -> None:
    if "parentModel" not in request:
        return
    resolve(service, request["parentModel"].partition("@")[0])
    if not request["parentModel"].startswith(f"{request['parent']}/models/"):
        raise invalid_argument(
            f'parentModel "{request["parentModel"]}" is not in {request["parent"]}.'
        )


def _new_id(service: Service, request: Json) -> str:
    model_id: str = request.get("modelId", "")
    if not model_id:
        return service.store.next_id()
    name = f"{request['parent']}/models/{model_id}"
    if service.store.find(name) is not None:
        raise already_exists(name)
    return model_id


def _store_version(
    service: Service,
    name: str,
    model: Json,
    source: Path | None,
    on_stored: OnStored,
    *,
    is_new: bool,
) -> Json:
    """Copy the artifacts, store the version and move the copy to its folder, or undo all."""
    key = service.store.next_id()
    incoming = artifacts.copy_in(source, root=service.root, key=key) if source else None
    added: Json = {}
    folder = None
    with ExitStack() as until_stored:
        try:
            with service.store.atomic():
                if is_new:
                    _insert_model(service, name, model)
                record = service.store.get(name)
                version_id = registry.next_version_id(record)
                folder = service.root / "models" / record["folder"] / version_id
                uri = str(folder) if incoming else ""
                if incoming and model["artifactUri"].startswith(buckets.SCHEME):
                    uri = model["artifactUri"]

                def change(record: Json) -> None:
                    added.update(
                        registry.add_version(record, model=model, artifact_uri=uri, time=now())
                    )

                service.store.update(name, change)
                service.store.insert(added["name"], added)
                on_stored(name, added)
                if incoming:
                    until_stored.enter_context(lost_and_found.creation(service.root, folder))
                    artifacts.place(incoming, folder)
        except BaseException:
            for leftover in filter(None, (incoming, folder)):
                lost_and_found.discard(leftover)
            raise
    return added


def _insert_model(service: Service, name: str, model: Json) -> None:
    model_id = ResourcePath.from_name(name).id
    is_used = any(one["folder"] == model_id for one in service.store.list_kind("models"))
    folder = f"{model_id}-{service.store.next_id()}" if is_used else model_id
    record = registry.new_record(name, folder=folder, model=model, time=now())
    service.store.insert(name, record)


def _deployments(
    service: Service, model_name: str, version_ids: list[str]
) -> Iterator[tuple[Json, Json]]:
    for endpoint in service.store.list_kind("endpoints"):
        for deployed in endpoint.get("deployedModels", []):
            if deployed["model"] == model_name and deployed["modelVersionId"] in version_ids:
                yield endpoint, deployed


def _refuse_deployed(service: Service, model_name: str, version_ids: list[str]) -> None:
    for endpoint, deployed in _deployments(service, model_name, version_ids):
        raise failed_precondition(
            f"{model_name}@{deployed['modelVersionId']} is deployed to {endpoint['name']} as "
            f"{deployed['id']}; undeploy it first."
        )


def _version(service: Service, record: Json, reference: str) -> Json:
    """Return the record of a version by its id or an alias; of the default version for "".

    Raises:
        ApiError: NOT_FOUND.
    """
    version_id = registry.version_id_of(record, reference)
    version = service.store.find(registry.version_name(record, version_id))
    if version is None:
        raise not_found(f"{record['name']}@{reference or registry.DEFAULT_ALIAS}")
    return version


def _version_ids(service: Service, model_name: str) -> list[str]:
    names = service.store.names(VERSIONS, parent=model_name)
    return [ResourcePath.from_name(name).id for name in names]


def _delete_version(service: Service, record: Json, version_id: str) -> None:
    service.store.delete(registry.version_name(record, version_id))
    for name in service.store.names("evaluations", parent=f"{record['name']}@{version_id}"):
        service.store.delete(name)


def _with_version(call: Call) -> tuple[str, str]:
    name, _, reference = call.name("models").partition("@")
    if not reference:
        raise invalid_argument(f"{name} has no version; use {name}@VERSION.")
    return name, reference


ROUTES = routes_of(
    "models",
    {
        "POST :upload": upload,
        "POST :copy": copy,
        "POST /<id>:export": export,
        "GET": list_models,
        "GET /<id>": get,
        "GET /<id>:listVersions": list_versions,
        "PATCH /<id>": update,
        "POST /<id>:mergeVersionAliases": merge_version_aliases,
        "DELETE /<id>": delete,
        "DELETE /<id>:deleteVersion": delete_version,
    },
)
