"""Send the rows of `requests.yaml` to a real project and keep the answers: `make record PROJECT=P`.

Vertex AI should refuse every request that would start a machine. If it takes one nevertheless, its
job is cancelled and deleted, its model undeployed. `tests/tools/test_record_requests.py` compares
the service with the answers.
"""

import argparse
import datetime
import json
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from vertex_local import Json
from vertex_local.tests.support.request_table import COSTLY, ROWS, Answer, Place, Row

RECORDED = Path(__file__).parents[1] / "tests" / "tools" / "recorded"
# The most that a request can cost that Vertex AI takes: a quarter of an hour of an n1-standard-4 in
# us-central1, at $0.22 an hour (https://cloud.google.com/vertex-ai/pricing, November 2026).
MOST_DOLLARS = 0.06
CLEANUP_SECONDS = 900.0
POLL_SECONDS = 5.0


def cost() -> str:
    """Return what a recording costs."""
    num_costly = sum(row.request in COSTLY for row in ROWS if not row.local)
    return (
        f"{sum(not row.local for row in ROWS)} requests. Those that Vertex AI refuses, an endpoint "
        "and a model without artifacts cost nothing. If it takes all "
        f"{num_costly} jobs and deployments that it should refuse, until they are cancelled: at "
        f"most ${num_costly * MOST_DOLLARS:.2f}."
    )


def record(place: Place, say: Callable[[str], object]) -> dict[str, Answer]:
    """Send every row; return the answers by the rows' ids, and remove what was created."""
    answers: dict[str, Answer] = {}
    model = {"displayName": "request-table", "containerSpec": {"imageUri": "python:3.11"}}
    created: list[str] = []
    try:
        for kind, path, body in (
            ("endpoint", "endpoints", {"displayName": "request-table"}),
            ("model", "models:upload", {"model": model}),
        ):
            place.names[kind] = name_of(finished(place, place.call("POST", path, body)))
            created.append(place.names[kind])
        for row in ROWS:
            if not row.local:
                answers[row.id] = place.send(row)
                say(f"{row.id}: {'; '.join(row.problems(answers[row.id])) or 'as expected'}")
                remove_taken(place, row, answers[row.id], created)
    finally:
        for name in reversed(created):
            finished(place, place.call("DELETE", name))
    return answers


def finished(place: Place, answer: Answer) -> Json:
    """Return the response of a method, at the end of its operation if it has one.

    Raises:
        RuntimeError: Vertex AI refused the request, or its operation failed.
        TimeoutError: The operation did not end.
    """
    content: Json = answer.content
    deadline = time.monotonic() + CLEANUP_SECONDS
    while "/operations/" in content.get("name", "") and not content.get("done"):
        wait(deadline, content["name"])
        content = place.call("GET", f"/v1/{content['name']}").content
    if "error" in content:
        raise RuntimeError(f"{content['error']}; remove by hand what is left of the requests")
    response: Json = content.get("response", content)
    return response


def wait(deadline: float, name: str) -> None:
    """Wait until the next poll; raise TimeoutError after the deadline."""
    if time.monotonic() > deadline:
        raise TimeoutError(f"{name} did not end in {CLEANUP_SECONDS:.0f} s; remove it by hand")
    time.sleep(POLL_SECONDS)


def name_of(response: Json) -> str:
    """Return the name of a created resource below the location: its project may be a number."""
    return "/".join((response.get("model") or response["name"]).split("/")[4:])


def remove_taken(place: Place, row: Row, answer: Answer, created: list[str]) -> None:
    """End what a request has started that should have been refused; note the rest for deletion."""
    if answer.code != 200 or not row.request.startswith("POST"):
        return
    if row.request.endswith(":deployModel"):
        place.call("POST", f"/v1/{answer.content['name']}:cancel", {})
        with suppress(RuntimeError):  # cancelled
            deployed = finished(place, answer)["deployedModel"]["id"]
            body = {"deployedModelId": deployed}
            finished(place, place.call("POST", "{endpoint}:undeployModel", body))
        return
    name = name_of(finished(place, answer))
    created.append(name)
    if row.request in COSTLY:
        place.call("POST", f"{name}:cancel", {})
        deadline = time.monotonic() + CLEANUP_SECONDS
        while "endTime" not in place.call("GET", name).content:
            wait(deadline, name)


def write(answers: dict[str, Answer], path: Path, *, project: str) -> None:
    """Write answers to a file, without the name of the project."""
    kept = {
        name: {key: value for key, value in asdict(answer).items() if key != "content"}
        for name, answer in answers.items()
    }
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(kept, indent=1).replace(project, "PROJECT") + "\n")


def read(path: Path) -> dict[str, Answer]:
    """Read recorded answers."""
    recorded = json.loads(path.read_text())
    return {
        name: Answer(**{**fields, "fields": tuple(fields["fields"])})
        for name, fields in recorded.items()
    }


def differences(recorded: dict[str, Answer], answers: dict[str, Answer]) -> list[str]:
    """Return the rows whose code, status or fields differ; Vertex AI's words may change."""
    pairs = [(name, answer, answers.get(name)) for name, answer in recorded.items()]
    return [
        f"{name}: Vertex AI {kept.code} {kept.status} {kept.fields} ({kept.message}), the service "
        f"{here.code} {here.status} {here.fields}"
        for name, kept, here in pairs
        if here and (kept.code, kept.status, kept.fields) != (here.code, here.status, here.fields)
    ]


def main() -> None:
    """Ask, send the requests, write the answers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--project", required=True)
    parser.add_argument("--location", default="us-central1")
    options = parser.parse_args()
    say = print
    say(f"Project {options.project}, {options.location}: {cost()}")
    if input("Type the project's name to send them: ") != options.project:
        sys.exit("Nothing was sent.")
    import google.auth
    from google.auth.transport.requests import AuthorizedSession

    credentials, _ = google.auth.default(["https://www.googleapis.com/auth/cloud-platform"])
    url = f"https://{options.location}-aiplatform.googleapis.com"
    session = AuthorizedSession(credentials)
    answers = record(Place(session, url, options.project, options.location), say)
    path = RECORDED / f"vertex-ai-{datetime.datetime.now(datetime.UTC):%Y-%m-%d}.json"
    write(answers, path, project=options.project)
    say(f"Wrote {path}; `pytest tests/tools/test_record_requests.py` compares the service.")


if __name__ == "__main__":
    main()
