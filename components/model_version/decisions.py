"""Decisions of people about a model, which runs obey.

They stand with the model, so that runs of schedules and of other machines see them: the state in
labels, and who decided when and why, which no label can hold, in a line of the version's
description: `[2026-11-26T11:31:39.123Z rejected by ann@desk] fares too low`.
https://cloud.google.com/resource-manager/docs/labels-overview#requirements
"""

import datetime
import re
from collections.abc import Callable
from dataclasses import dataclass

from components.shared.vertex.api import VertexApi
from components.shared.vertex.errors import VertexError
from components.shared.vertex.labels import (
    HELD_LABEL,
    MODEL_LABEL,
    REJECTED,
    STATE_LABEL,
    WAITING,
    label_of,
)
from components.shared.vertex.resource_name import ResourceName
from trainer import Json

APPROVED, HELD, RELEASED = "approved", "held", "released"
# Value of the setting release.approval.
REQUIRED = "required"
# Outcomes of runs whose model passed and was not promoted. NOT_PROMOTED: as the run was asked.
NOT_PROMOTED = "not-promoted"
STOPS = (HELD, REJECTED, WAITING, NOT_PROMOTED)
_LINE = re.compile(rf"\[(\S+Z) ({REJECTED}|{APPROVED}|{HELD}|{RELEASED}) by (\S+)\] ?(.*)")
MAX_ATTEMPTS = 10
# Of a request whose etag is no longer the resource's.
CONFLICTS = ("ABORTED", "FAILED_PRECONDITION")


@dataclass(frozen=True, kw_only=True)
class Decision:
    """A person's decision: `kind` is rejected, approved, held or released."""

    kind: str
    version: str
    time: str
    by: str
    reason: str

    def __str__(self) -> str:
        why = f": {self.reason}" if self.reason else ""
        return f"by {self.by} at {self.time[:19]}Z{why}"


def decisions_of(version: Json) -> list[Decision]:
    """Return the decisions about a version, oldest first."""
    number = str(version["versionId"])
    lines = str(version.get("versionDescription", "")).splitlines()
    return [
        Decision(kind=match[2], version=number, time=match[1], by=match[3], reason=match[4])
        for line in lines
        if (match := _LINE.fullmatch(line))
    ]


def verdict_of(version: Json) -> str:
    """Return the description of a version without the decisions: the verdict of its run."""
    lines = str(version.get("versionDescription", "")).splitlines()
    return "\n".join(line for line in lines if not _LINE.fullmatch(line))


def described(version: Json, verdict: str) -> str:
    """Return the description of a version with another verdict and the same decisions."""
    lines = str(version.get("versionDescription", "")).splitlines()
    return "\n".join([verdict, *(line for line in lines if _LINE.fullmatch(line))])


def decide(
    api: VertexApi,
    version: ResourceName,
    kind: str,
    *,
    by: str,
    reason: str,
    check: Callable[[Json], None] = lambda _: None,
) -> None:
    """Record a decision about a version, and change the label that runs obey.

    `check` raises an error if the version, as it is in this moment, does not allow the decision.
    """
    moment = datetime.datetime.now(datetime.UTC).replace(tzinfo=None)
    stamp = moment.isoformat(timespec="milliseconds")
    text = "".join(sign for sign in " ".join(reason.split()) if sign.isprintable())
    line = f"[{stamp}Z {kind} by {by}] {text}".rstrip()

    def change(record: Json) -> Json:
        if line in record.get("versionDescription", "").splitlines():
            return {}  # a lost response made the client repeat the request
        check(record)
        labels = dict(record.get("labels", {}))
        if kind == REJECTED:
            labels[STATE_LABEL] = REJECTED
        elif kind == HELD:
            labels[HELD_LABEL] = moment.strftime("%Y%m%dt%H%M%Sz")
        elif kind == RELEASED:
            labels.pop(HELD_LABEL, None)
        description = "\n".join(filter(None, [record.get("versionDescription", ""), line]))
        return {"labels": labels, "versionDescription": description}

    update_version(api, version, change)


def is_rejected(version: Json) -> bool:
    """Return whether a person rejected the version."""
    return label_of(version, STATE_LABEL) == REJECTED


def stop_of(versions: list[Json], digest: str) -> str:
    """Return why no run may promote the model with a digest, "" if one may.

    The text begins with HELD, REJECTED or WAITING and a colon: the model is held, the same files
    were rejected, or they wait for an approval already.
    """
    for version in versions:
        if HELD_LABEL in version.get("labels", {}):
            return f"{HELD}: {last_decision(version, HELD)}"
    same = [v for v in versions if digest and label_of(v, MODEL_LABEL) == digest]
    for version in same:
        if is_rejected(version):
            number, name = version["versionId"], version.get("displayName", "MODEL")
            way_back = f"to promote it: trainyard models approve {name}@{number}"
            why = f"the model is that of version {number} ({way_back})"
            return f"{REJECTED}: {why}, {REJECTED} {last_decision(version, REJECTED)}"
    for version in same:
        if version["labels"].get(STATE_LABEL) == WAITING:
            return f"{WAITING}: version {version['versionId']} is the same model and waits already"
    return ""


def last_decision(version: Json, kind: str) -> str:
    """Return the last decision of a kind in words; a person may have changed the description."""
    decisions = [str(one) for one in decisions_of(version) if one.kind == kind]
    return decisions[-1] if decisions else "by somebody, whose name was deleted"


def update_version(api: VertexApi, version: ResourceName, change: Callable[[Json], Json]) -> None:
    """Change fields of a version, such as its labels, which are only replaced as a whole.

    `change` returns the new fields of the version as it is, {} for no change; it is called again
    if another change came between, which the etag tells.
    """
    for attempt in range(MAX_ATTEMPTS):
        record = api.get(version.name)
        changes = change(record)
        if not changes:
            return
        etag = {"etag": record["etag"]} if "etag" in record else {}
        try:
            api.patch(f"{version.name}?updateMask={','.join(changes)}", changes | etag)
            return
        except VertexError as error:
            if error.status not in CONFLICTS or attempt + 1 == MAX_ATTEMPTS:
                raise
