"""Pages of a list.

A page token has the sort key of the last item, not an offset, so no item is skipped or repeated if
resources are created or deleted between two requests.
"""

import base64
import binascii
import hashlib
import json
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass

from vertex_local import Json
from vertex_local.api.query import masks, select
from vertex_local.api.query.masks import Mask
from vertex_local.api.query.select import Query
from vertex_local.api.routes import Call
from vertex_local.api.service import Service
from vertex_local.errors import ApiError, invalid_argument

MAX_PAGE_SIZE = 1000
MAX_POSITION = 2**63 - 1
NUM_DIGEST_CHARACTERS = 12


@dataclass(frozen=True)
class Page:
    """Page of a list, as requested."""

    collection: str
    query: Query
    size: int
    after: tuple[str | int, ...]
    digest: str
    mask: Mask

    @classmethod
    def from_call(cls, call: Call, kind: str, *, parent: str) -> "Page":
        """Parse `filter`, `orderBy`, `pageSize`, `pageToken` and `readMask` of a request.

        Raises:
            ApiError: INVALID_ARGUMENT, naming the invalid one.
        """
        filter_text = call.query.get("filter", "")
        order_by = call.query.get("orderBy", "")
        query = select.build(kind, filter_text=filter_text, order_by=order_by)
        collection = f"{parent}/{kind}"
        text = json.dumps([collection, filter_text, order_by])
        digest = hashlib.sha256(text.encode()).hexdigest()[:NUM_DIGEST_CHARACTERS]
        token = call.query.get("pageToken", "")
        return cls(
            collection=collection,
            query=query,
            size=page_size(call.query.get("pageSize", "")),
            after=_after(token, digest=digest, num_keys=len(query.orders) + 1) if token else (),
            digest=digest,
            mask=read_mask(call),
        )

    def read(self, connection: sqlite3.Connection) -> tuple[list[int], str]:
        """Return the positions of the page's resources, and the next page's token or ""."""
        keys = select.select(
            connection, self.collection, self.query, after=self.after, limit=self.size + 1
        )
        shown = keys[: self.size]
        token = self._token(shown[-1]) if len(keys) > self.size else ""
        return [int(key[-1]) for key in shown], token

    def _token(self, key: tuple[str | int, ...]) -> str:
        text = json.dumps([self.digest, *key], separators=(",", ":"))
        return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def list_page(
    service: Service,
    call: Call,
    kind: str,
    *,
    parent: str = "",
    view: Callable[[Json], Json] = dict,
) -> Json:
    """Return a page of the resources of a kind below `parent`, each as `view` shows it."""
    page = Page.from_call(call, kind, parent=parent or call.parent)
    with service.store.lock:  # `view` may read other resources
        resources, token = service.store.page(page.read)
        shown = [masks.apply(page.mask, view(resource)) for resource in resources]
    return {kind: shown, "nextPageToken": token} if token else {kind: shown}


def read_mask(call: Call) -> Mask:
    """Return the `readMask` of a request."""
    return masks.parse(call.query.get("readMask", ""), parameter="readMask")


def _after(token: str, *, digest: str, num_keys: int) -> tuple[str | int, ...]:
    try:
        padded = token + "=" * (-len(token) % 4)
        made_for, *key = json.loads(base64.b64decode(padded, altchars="-_", validate=True))
    except (binascii.Error, ValueError, TypeError, RecursionError):
        raise _wrong_token(token) from None
    *texts, position = key or [None]
    is_key = len(key) == num_keys and all(isinstance(one, str) for one in texts)
    is_position = type(position) is int and 0 <= position <= MAX_POSITION
    if made_for != digest or not is_key or not is_position:
        raise _wrong_token(token)
    return tuple(key)


def _wrong_token(token: str) -> ApiError:
    return invalid_argument(
        f'pageToken "{token[:100]}" is not a token of this list; repeat the request with the same '
        "filter and orderBy as for the page before, or start without a token."
    )


def page_size(text: str, *, default: int = MAX_PAGE_SIZE) -> int:
    """Return the `pageSize` of a request: the default without one or for 0, and at most 1000."""
    if text and not (text.isascii() and text.isdigit()):
        raise invalid_argument(
            f'pageSize "{text}" is not valid; it must be an integer of at least 0.'
        )
    return min(int(text[:9] or 0), MAX_PAGE_SIZE) or default
