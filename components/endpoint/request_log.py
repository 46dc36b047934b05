"""Log of an endpoint's requests and responses: its setting, and reading it.

Vertex AI writes it to a table of BigQuery; not tested against the real service. The local service
keeps it in a private file and returns it, newest first, at `…/endpoints/E/loggedRequests`, a
resource that Vertex AI does not have.
https://cloud.google.com/vertex-ai/docs/predictions/online-prediction-logging
"""

import itertools
import json
import logging
import re
from collections.abc import Iterable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from components.shared.text.json_object import as_object
from components.shared.vertex.api import VertexApi
from components.shared.vertex.errors import VertexError
from trainer import Json

logger = logging.getLogger(__name__)

CONFIG = "predictRequestResponseLoggingConfig"
TABLE_SCHEME = "bq://"
DEFAULT_TABLE = "request_response_logging"
OK = 200
MAX_PAGE_SIZE = 1000


@dataclass(frozen=True, kw_only=True)
class LoggedRequest:
    """One prediction request of an endpoint and its response.

    Attributes:
        predictions: in the response; none if it is an error.
    """

    time: str
    deployed_model_id: str
    instances: list[Any]
    predictions: list[Any]
    status: int = OK

    @property
    def is_ok(self) -> bool:
        """True if the response has predictions."""
        return self.status == OK


def is_logging(endpoint: Json) -> bool:
    """Return whether an endpoint logs requests."""
    return bool(endpoint.get(CONFIG, {}).get("enabled"))


def set_request_log(api: VertexApi, endpoint: Json, *, rate: float, table: str = "") -> None:
    """Log a share of an endpoint's requests; 0 stops the log.

    `table` is `bq://PROJECT.DATASET.TABLE`, "" for the present one, or one in the api's
    project.
    """
    current = endpoint.get(CONFIG, {})
    config: Json = {"enabled": rate > 0}
    if rate:
        kept = current.get("bigqueryDestination", {}).get("outputUri", "")
        uri = table or kept or f"{TABLE_SCHEME}{api.project}"
        config |= {"samplingRate": rate, "bigqueryDestination": {"outputUri": uri}}
    if config == current or not (rate or is_logging(endpoint)):
        return
    api.patch(f"{endpoint['name']}?updateMask={CONFIG}", {CONFIG: config})
    logger.info("%s logs %g of its requests", endpoint["displayName"], rate)


def read_logged(api: VertexApi, endpoint: str, *, last: int) -> list[LoggedRequest]:
    """Return the last logged requests of an endpoint, newest first.

    Raises:
        VertexError: The endpoint does not exist.
        OSError: BigQuery cannot be reached, or refuses.
    """
    try:
        size = str(min(last, MAX_PAGE_SIZE))
        entries = api.list_resources(f"{endpoint}/loggedRequests", pageSize=size)
        return [_from_service(entry) for entry in itertools.islice(entries, last)]
    except VertexError as error:
        if error.code not in (HTTPStatus.NOT_FOUND, HTTPStatus.NOT_IMPLEMENTED):
            raise
    return _read_from_bigquery(api.get(endpoint), project=api.project, last=last)


def _from_service(entry: Json) -> LoggedRequest:
    request, response = (as_object(entry.get(name)) or {} for name in ("request", "response"))
    return LoggedRequest(
        time=str(entry["time"]),
        deployed_model_id=str(entry.get("deployedModelId", "")),
        instances=list(request.get("instances", [])),
        predictions=list(response.get("predictions", [])),
        status=int(entry.get("status", OK)),
    )


def _read_from_bigquery(endpoint: Json, *, project: str, last: int) -> list[LoggedRequest]:
    if CONFIG not in endpoint:
        return []
    from google.cloud import bigquery

    from components.prepare_examples.tables.reading.bigquery import connect, explaining_errors

    by_endpoint = bigquery.ScalarQueryParameter("endpoint", "STRING", endpoint["name"])
    config = bigquery.QueryJobConfig(query_parameters=[by_endpoint])
    with explaining_errors(project):
        rows = connect(project).query(build_query(table_of(endpoint), last=last), config).result()
        return [from_row(row) for row in rows]


def table_of(endpoint: Json) -> str:
    """Return the table of an endpoint's log, `PROJECT.DATASET.TABLE`.

    Vertex AI creates dataset and table where its setting names none.
    """
    uri = endpoint[CONFIG]["bigqueryDestination"]["outputUri"].removeprefix(TABLE_SCHEME)
    name = re.sub(r"\W", "_", endpoint["displayName"])
    parts = uri.split(".")
    defaults = ["", f"logging_{name}_{endpoint['name'].rpartition('/')[2]}", DEFAULT_TABLE]
    return ".".join([*parts, *defaults[len(parts) :]])


def build_query(table: str, *, last: int) -> str:
    """Return the query for the last requests of the endpoint @endpoint, newest first."""
    return (
        "SELECT logging_time, deployed_model_id, request_payload, response_payload\n"
        f"FROM `{table}`\nWHERE ENDS_WITH(@endpoint, endpoint)\n"
        f"ORDER BY logging_time DESC\nLIMIT {last}"
    )


def from_row(row: Any) -> LoggedRequest:
    """Return the request of a row; a payload has one JSON text for each instance or for all."""
    return LoggedRequest(
        time=row["logging_time"].isoformat(),
        deployed_model_id=str(row["deployed_model_id"]),
        instances=_values(row["request_payload"], "instances"),
        predictions=_values(row["response_payload"], "predictions"),
    )


def _values(texts: Iterable[str], name: str) -> list[Any]:
    values: list[Any] = []
    for value in map(json.loads, texts):
        is_whole = isinstance(value, dict) and isinstance(value.get(name), list)
        values += value[name] if is_whole else [value]
    return values
