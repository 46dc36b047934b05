"""Expiry of an endpoint: a label with the moment from which the teardown of any run deletes it.

Nothing else watches it: without a run, the endpoint stays.
"""

import datetime
import logging

from components.prepare_examples.settings.patterns import duration
from components.shared.vertex.api import VertexApi
from components.shared.vertex.labels import EXPIRES_LABEL
from trainer import Json

logger = logging.getLogger(__name__)

DURATION = {"pattern": r"[1-9][0-9]{0,4}[mhd]", "form": "a time, as 30m, 8h or 3d"}
_FORM = "%Y%m%d-%H%M%S%z"


def set_expiry(api: VertexApi, endpoint: Json, after: str, *, served_before: bool) -> None:
    """Let an endpoint expire after a time such as `8h`; with "" it stays.

    One that serves and was not to expire stays as well: it is more than a trial's.
    """
    labels = dict(endpoint.get("labels", {}))
    name, expires = endpoint["displayName"], labels.pop(EXPIRES_LABEL, "")
    if after and served_before and not expires:
        logger.warning("the endpoint %s does not expire: it served before without an expiry", name)
        return
    if after:
        moment = datetime.datetime.now(datetime.UTC) + duration(after)
        labels[EXPIRES_LABEL] = f"{moment:%Y%m%d-%H%M%S}"
    if labels != endpoint.get("labels", {}):
        api.patch(f"{endpoint['name']}?updateMask=labels", {"labels": labels})
        logger.info("the endpoint %s %s", name, f"expires in {after}" if after else "stays")


def seconds_left(endpoint: Json) -> float | None:
    """Return the seconds until an endpoint expires, negative afterwards; None if it does not."""
    text = endpoint.get("labels", {}).get(EXPIRES_LABEL)
    try:
        moment = datetime.datetime.strptime(f"{text}+0000", _FORM)
    except ValueError:  # no label, or one that we have not written
        return None
    return (moment - datetime.datetime.now(datetime.UTC)).total_seconds()


def has_expired(endpoint: Json) -> bool:
    """Return whether an endpoint has expired."""
    left = seconds_left(endpoint)
    return left is not None and left <= 0
