"""Endpoints: deploy model versions as processes, split the traffic, predict."""

import threading

from vertex_local import Json
from vertex_local.api import comments, etags, operations, protos
from vertex_local.api.etags import with_etag
from vertex_local.api.pages import list_page
from vertex_local.api.resource_names import ResourcePath
from vertex_local.api.routes import Call, Message, RawRoute, routes_of
from vertex_local.api.service import Service
from vertex_local.endpoints import deployments, forwarding, log_pages, request_log
from vertex_local.endpoints import record as traffic
from vertex_local.errors import failed_precondition, invalid_argument, not_found
from vertex_local.machine import lost_and_found
from vertex_local.machine.clock import now
from vertex_local.models import resource as models

# Header fields to pass on; the second is of predictions in binary form (Open Inference Protocol).
RAW_FIELDS = ("Content-Type", "Inference-Header-Content-Length")
UPDATES = ("displayName", "description", "labels", "trafficSplit", request_log.CONFIG)
OBJECTS = ("labels", "trafficSplit", request_log.CONFIG)


def create(service: Service, call: Call) -> Json:
    """POST endpoints: create an endpoint, with no model deployed."""
    given = protos.parse("Endpoint", call.body)
    if endpoint_id := call.query.get("endpointId"):
        comments.require("CreateEndpointRequest", endpointId=endpoint_id)
    name = f"{call.parent}/endpoints/{endpoint_id or service.store.next_id()}"
    kept = {field: value for field, value in given.items() if field not in ("trafficSplit", "etag")}
    created = now()
    endpoint = {"name": name, **kept, "createTime": created, "updateTime": created}
    if kept.get("dedicatedEndpointEnabled"):  # `vertex-local exec` brings its requests here
        names = ResourcePath.from_name(name)
        endpoint["dedicatedEndpointDns"] = (
            f"{names.id}.{names.location}-{names.project}.prediction.vertexai.goog"
        )
    with service.store.atomic():
        service.store.insert(name, endpoint)
        return operations.finished(
            service, name, "CreateEndpoint", with_etag(endpoint), response_type="Endpoint"
        )


def get(service: Service, call: Call) -> Json:
    """GET endpoints/E."""
    return with_etag(service.store.get(call.name("endpoints")))


def list_endpoints(service: Service, call: Call) -> Json:
    """GET endpoints."""
    return list_page(service, call, "endpoints", view=with_etag)


def update(service: Service, call: Call) -> Json:
    """PATCH endpoints/E: change the fields in `updateMask`; a traffic split is validated."""
    fields, name = call.update_mask(UPDATES), call.name("endpoints")
    given = protos.parse("Endpoint", call.body, fields=fields)

    def change(endpoint: Json) -> None:
        etags.check(given, etags.etag_of(endpoint), name)
        if "trafficSplit" in fields:
            deployed = endpoint.get("deployedModels", [])
            traffic.check(given.get("trafficSplit", {}), [one["id"] for one in deployed])
        for field in fields:
            endpoint[field] = given.get(field, {} if field in OBJECTS else "")
        endpoint["updateTime"] = now()

    return with_etag(service.store.update(name, change))


def delete(service: Service, call: Call) -> Json:
    """DELETE endpoints/E, which must have no deployed models."""
    name = call.name("endpoints")
    folder = service.root / "endpoints" / call.args["id"]
    with lost_and_found.deletion(service.root, folder):
        with service.store.atomic():
            deployed = service.store.get(name).get("deployedModels", [])
            if deployed:
                ids = ", ".join(one["id"] for one in deployed)
                raise failed_precondition(
                    f"{name} has deployed models ({ids}); undeploy them first."
                )
            service.store.delete(name)
            operation = operations.deleted(service, name)
        request_log.log_of(service).forget(name)
    return operation


def deploy_model(service: Service, call: Call) -> Json:
    """POST …:deployModel: start the process of a version; done once it is healthy."""
    name = call.name("endpoints")
    request = protos.parse("DeployModelRequest", {**call.body, "endpoint": name})
    endpoint = service.store.get(name)
    requested = request["deployedModel"]
    if pool := requested.get("sharedResources"):
        raise not_found(pool)  # this service has none
    model = models.resolve(service, requested["model"])
    deployed = {
        **traffic.with_resources(requested),
        "id": deployments.new_id(service, endpoint, requested.get("id", "")),
        "model": model["name"],
        "modelVersionId": model["versionId"],
        "displayName": requested.get("displayName") or model["displayName"],
        "createTime": now(),
    }
    split = request.get("trafficSplit", {})
    traffic.after_deploy(endpoint, new_id=deployed["id"], requested=split)
    deployments.spec_of(service, name, deployed)  # validates before the process starts
    process = deployments.process_of(service, name, deployed)

    def work(stop: threading.Event) -> Json:
        deployments.start(service, name, deployed=deployed, split=split, process=process, stop=stop)
        return {"deployedModel": deployed}

    return operations.start(service, name, "DeployModel", work)


def mutate_deployed_model(service: Service, call: Call) -> Json:
    """POST …:mutateDeployedModel: change the replicas and the autoscaling of a deployed model."""
    name = call.name("endpoints")
    body = {**call.body, "endpoint": name}
    request = protos.parse("MutateDeployedModelRequest", body, fields=())  # its mask says which
    wanted, mask = request.get("deployedModel", {}), request.get("updateMask", "")
    result: Json = {}

    def change(endpoint: Json) -> None:
        result["deployedModel"] = traffic.mutate(endpoint, wanted, mask=mask)
        endpoint["updateTime"] = now()

    service.store.update(name, change)
    return operations.start(service, name, "MutateDeployedModel", lambda stop: result)


def undeploy_model(service: Service, call: Call) -> Json:
    """POST …:undeployModel: remove a deployed model, then drain and end its process."""
    name = call.name("endpoints")
    request = protos.parse("UndeployModelRequest", {**call.body, "endpoint": name})
    deployed_id = request["deployedModelId"]
    split = request.get("trafficSplit", {})

    def change(endpoint: Json) -> None:
        deployed = endpoint.get("deployedModels", [])
        if deployed_id not in [one["id"] for one in deployed]:
            raise not_found(f'deployedModelId "{deployed_id}" of {name}')
        endpoint["trafficSplit"] = traffic.after_undeploy(
            endpoint, deployed_id=deployed_id, requested=split
        )
        endpoint["deployedModels"] = [one for one in deployed if one["id"] != deployed_id]
        endpoint["updateTime"] = now()

    service.store.update(name, change)

    def work(stop: threading.Event) -> Json:
        deployments.stop(service, name, deployed_id)
        return {}

    return operations.start(service, name, "UndeployModel", work)


def predict(service: Service, call: Call) -> Message:
    """POST …:predict: return the predictions of a deployed model chosen by the traffic split."""
    name = call.name("endpoints")
    service.store.get(name)  # raises NOT_FOUND
    _check_instances(call.message.json())
    return forwarding.predict(service, name, Message(call.message.data, forwarding.JSON_FIELDS))


def raw_predict(service: Service, call: Call) -> Message:
    """POST …:rawPredict: pass a body to a deployed model's server, and its response back."""
    forwarder = service.running[forwarding.KEY]
    target, response = forwarder.exchange(call.name("endpoints"), call.message)
    fields = {key: value for key, value in response.fields.items() if key.title() in RAW_FIELDS}
    fields |= {
        "X-Vertex-AI-Endpoint-Id": call.args["id"],
        "X-Vertex-AI-Deployed-Model-Id": target.id,
        "X-Vertex-AI-Model": target.source["model"],
        "X-Vertex-AI-Model-Version-Id": target.version_id,
    }
    return Message(response.data, fields, response.status)


def recover(service: Service) -> None:
    """Start the processes of all deployed models; clear the folders of deleted endpoints."""
    endpoints = service.store.list_kind("endpoints")
    folder = service.root / "endpoints"
    known = {folder / ResourcePath.from_name(endpoint["name"]).id for endpoint in endpoints}
    lost_and_found.clear(service.root, set(folder.glob("*")) - known)
    for endpoint in endpoints:
        for deployed in endpoint.get("deployedModels", []):
            deployments.restart(service, endpoint["name"], deployed)


def close(service: Service) -> None:
    """End the processes of all deployed models."""
    deployments.stop_all(service)


def _check_instances(body: Json) -> None:
    """Check a body of `:predict`; it is passed on as it is."""
    unknown = set(body) - {"instances", "parameters"}
    if unknown:
        raise invalid_argument(
            f'Unknown name "{min(unknown)}"; write {{"instances": [...]}}, with "parameters" if '
            "the model takes them."
        )
    if not isinstance(body.get("instances"), list):
        raise invalid_argument('"instances" is required, and must be a list.')


PATH = "projects/<project>/locations/<location>/endpoints/<id>"
ROUTES = [
    *routes_of(
        "endpoints",
        {
            "POST": create,
            "GET": list_endpoints,
            "GET /<id>": get,
            "PATCH /<id>": update,
            "DELETE /<id>": delete,
            "POST /<id>:deployModel": deploy_model,
            "POST /<id>:mutateDeployedModel": mutate_deployed_model,
            "POST /<id>:undeployModel": undeploy_model,
            "GET /<id>/deployedModels": deployments.list_deployed_models,
            "GET /<id>/loggedRequests": log_pages.list_logged_requests,
        },
    ),
    RawRoute("POST", f"{PATH}:predict", predict),
    RawRoute("POST", f"{PATH}:rawPredict", raw_predict, RAW_FIELDS),
    RawRoute("POST", f"{PATH}:streamRawPredict", raw_predict, RAW_FIELDS),  # in one piece
]
