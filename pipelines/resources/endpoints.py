"""Endpoints: show, change and delete."""

from components.endpoint.deployments import deployed_in, server_states
from components.endpoint.request_log import set_request_log
from components.shared.vertex.api import VertexApi
from pipelines.resources.names import endpoint_of, short_name, shown_model
from pipelines.resources.table import TextTable
from trainer import Json


def list_endpoints(api: VertexApi) -> list[Json]:
    """Return each endpoint with the versions it serves, their traffic, and its state."""
    endpoints = list(api.list_resources("endpoints"))
    deployed = [entry for endpoint in endpoints for entry in deployed_in(endpoint)]
    names = {model: shown_model(api, model) for model in {entry["model"] for entry in deployed}}
    return [
        {
            "endpoint": endpoint["displayName"],
            "id": short_name(endpoint["name"]),
            "serves": [_served(entry, endpoint, names) for entry in deployed_in(endpoint)],
            "status": _serving_state(api, endpoint),
        }
        for endpoint in endpoints
    ]


def _served(deployed: Json, endpoint: Json, names: dict[str, str]) -> Json:
    """Return a deployed model as JSON, its version by the model's display name, `mnist@1`."""
    return {
        "version": f"{names[deployed['model']]}@{deployed.get('modelVersionId', '?')}",
        "model": deployed["model"],
        "deployedModelId": deployed["id"],
        "dedicatedResources": deployed.get("dedicatedResources", {}),
        "traffic": int(endpoint.get("trafficSplit", {}).get(deployed["id"], 0)),
    }


def endpoints_table(endpoints: list[Json]) -> TextTable:
    """Return a row for each endpoint: versions, their shares of the traffic, and state."""
    rows = []
    for endpoint in endpoints:
        serves = ", ".join(f"{each['version']} {each['traffic']}%" for each in endpoint["serves"])
        rows.append((endpoint["endpoint"], endpoint["id"], serves or "-", endpoint["status"]))
    return TextTable(("ENDPOINT", "ID", "SERVES", "STATUS"), rows)


def _serving_state(api: VertexApi, endpoint: Json) -> str:
    """Return the states of the prediction servers; "-" on Vertex AI, which does not report them."""
    if not endpoint.get("deployedModels"):
        return "-"
    servers = server_states(api, endpoint["name"]).values()
    states = [f"{server['state']}{_restarts(server)}" for server in servers]
    return ", ".join(states) or "-"


def _restarts(status: Json) -> str:
    count = status.get("restarts", 0)
    return f" ({count} restart{'s' if count > 1 else ''})" if count else ""


def log_requests(api: VertexApi, name: str, *, rate: float, table: str = "") -> str:
    """Log a share of an endpoint's requests and responses, none at rate 0; return its name."""
    endpoint = endpoint_of(api, name)
    set_request_log(api, endpoint, rate=rate, table=table)
    return str(endpoint["displayName"])
