"""Tasks of a run, with what only its journal knows of them."""

from vertex_local import Json
from vertex_local.api.service import Service
from vertex_local.console import words
from vertex_local.pipelines import journal
from vertex_local.pipelines import resource as pipelines


def details_of(record: Json) -> list[Json]:
    """Return the tasks of a run that was read with them, in the order of their starts."""
    details: list[Json] = record.get("jobDetail", {}).get("taskDetails", [])
    return details


def with_details(service: Service, run: Json) -> Json:
    """Return a run with its tasks; these have also what only the journal has.

    That is the `key` in the specification, the items of their loops, and the `jobs` that a task of
    Google's components has created, also one that has not ended.
    """
    record = pipelines.with_tasks(service, service.store.with_spec(run))
    events = journal.read(pipelines.KIND.folder_of(service, record["name"]))
    started = {str(event["id"]): event for event in events if "key" in event}
    items = {event["scope"]: event["item"] for event in events if "item" in event}
    created = {str(event["id"]): event["resource"] for event in events if "resource" in event}
    for detail in details_of(record):
        task_id = detail["taskId"]
        parts = started[task_id].get("scope", "").split("/")
        scopes = ("/".join(parts[: end + 1]) for end in range(len(parts)))
        names = [created[task_id]] if task_id in created else _cached_jobs(detail)
        detail["key"] = started[task_id]["key"]
        detail["loop_items"] = [items[scope] for scope in scopes if scope in items]
        detail["jobs"] = [name for name in names if "Jobs/" in name]
    return record


def _cached_jobs(detail: Json) -> list[str]:
    text = detail["execution"].get("metadata", {}).get("output:gcp_resources")
    resources = (words.json_object(text) or {}).get("resources", [])
    return [str(resource.get("resourceUri", "")).partition("/v1/")[2] for resource in resources]
