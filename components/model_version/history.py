"""History of a model: its default versions, kept in labels of its versions, and decisions.

Vertex AI keeps no history of aliases. Each time a version becomes the default it gets a label whose
key has the time and whose value has the cause: `trainyard_default_20261122t204959123z` =
`promoted_mnist-3`. A version's history is deleted with the version.
https://cloud.google.com/resource-manager/docs/labels-overview#requirements
"""

import datetime
import itertools
import re
from collections.abc import Mapping
from dataclasses import dataclass

from components.model_version.decisions import APPROVED, decisions_of, verdict_of
from components.shared.vertex.labels import (
    MAX_VALUE,
    PROMOTED,
    RUN_LABEL,
    STATE_LABEL,
    WAITING,
    label_of,
    label_value,
)
from trainer import Json

PREFIX = "trainyard_default_"
BY_HAND, ROLLBACK, UPLOADED = "set-default", "rollback", "uploaded"
FIRST_VERSION = "1"
MAX_EVENTS = 20  # labels of a version; a resource may have 64
_TIME = "%Y%m%dt%H%M%S"
_KEY = re.compile(PREFIX + r"(\d{8}t\d{6})(\d{3})z")


@dataclass(frozen=True, kw_only=True)
class HistoryEntry:
    """Time during which one version was the default, or a decision about a version.

    Attributes:
        since, until: times such as 2026-11-22T20:49:59.123Z; `until` is "" for the current default,
            and the same as `since` for a decision.
        cause: `promoted`, `approved`, `rollback`, `set-default` or `uploaded`; of a decision
            `waiting`, `rejected`, `held`, `released` or `approved`.
        run: the run that promoted the version, or that created it.
        reasons: verdict of the run that promoted the version, or the reason of a decision.
        by: the person who decided, as `ann@desk`; of the default in the letters of a label.
    """

    version: str
    since: str
    until: str
    cause: str
    reasons: str
    run: str = ""
    by: str = ""

    @property
    def actor(self) -> str:
        """Return the person who decided, or else the run that promoted or registered it."""
        return self.by or (self.run if self.cause in (PROMOTED, WAITING) else "")

    @property
    def is_decision(self) -> bool:
        """True if it is no time as the default."""
        return self.since == self.until


def cause_of(kind: str, text: str = "") -> str:
    """Return the cause of a default version, with the run, the person or the reason."""
    return f"{kind}_{label_value(text)}"[:MAX_VALUE].rstrip("_-")


def with_event(labels: Mapping[str, str], cause: str) -> dict[str, str]:
    """Return the labels of a version that becomes the default now; the newest events are kept."""
    now = datetime.datetime.now(datetime.UTC)
    key = f"{PREFIX}{now.strftime(_TIME)}{now.microsecond // 1000:03d}z"
    dropped = sorted(name for name in labels if _KEY.fullmatch(name))[: -(MAX_EVENTS - 1)]
    return {**{name: value for name, value in labels.items() if name not in dropped}, key: cause}


def without_event(labels: Mapping[str, str]) -> dict[str, str]:
    """Return the labels of a version without the last time that it became the default."""
    last = max((name for name in labels if _KEY.fullmatch(name)), default="")
    return {name: value for name, value in labels.items() if name != last}


def decision_history(versions: list[Json]) -> list[HistoryEntry]:
    """Return the decisions about the versions, and those that wait for one, oldest first."""
    entries = []
    for record in versions:
        entries += [
            HistoryEntry(
                version=one.version,
                since=one.time,
                until=one.time,
                cause=one.kind,
                reasons=one.reason,
                by=one.by,
            )
            for one in decisions_of(record)
        ]
        if label_of(record, STATE_LABEL) == WAITING:
            created = str(record.get("versionCreateTime", ""))
            entries.append(
                HistoryEntry(
                    version=str(record["versionId"]),
                    since=created,
                    until=created,
                    cause=WAITING,
                    run=label_of(record, RUN_LABEL),
                    reasons=verdict_of(record),
                )
            )
    return sorted(entries, key=lambda entry: entry.since)


def history_of(versions: list[Json]) -> list[HistoryEntry]:
    """Return the periods in which a version was the default, the current one last."""
    events = sorted(event for record in versions for event in _events(record))
    by_number = {str(record["versionId"]): record for record in versions}
    # An interrupted and completed promotion has two events.
    changes = [next(same) for _, same in itertools.groupby(events, key=lambda event: event[1])]
    ends = [since for since, _, _ in changes[1:]]
    return [
        _period(by_number[version], since=since, until=until, cause=cause)
        for (since, version, cause), until in zip(changes, [*ends, ""], strict=True)
    ]


def _events(version: Json) -> list[tuple[str, str, str]]:
    """Return the time, the version and the cause of each event of a version.

    One event has no such label: the upload of a model's first version, which makes it the default.
    """
    number, labels = str(version["versionId"]), version.get("labels", {})
    matches = [(_KEY.fullmatch(name), cause) for name, cause in labels.items()]
    events = [(_moment(match), number, cause) for match, cause in matches if match]
    if STATE_LABEL not in labels and number == FIRST_VERSION:
        return [(str(version.get("versionCreateTime", "")), number, UPLOADED), *events]
    return events


def _moment(match: re.Match[str]) -> str:
    moment = datetime.datetime.strptime(match[1], _TIME)
    return f"{moment.isoformat()}.{match[2]}Z"


def _period(version: Json, *, since: str, until: str, cause: str) -> HistoryEntry:
    kind, _, rest = cause.partition("_")
    is_promotion = kind == PROMOTED
    reasons = rest.replace("-", " ") if kind == ROLLBACK else ""
    if kind in (PROMOTED, APPROVED):
        reasons = verdict_of(version)
    return HistoryEntry(
        version=str(version["versionId"]),
        since=since,
        until=until,
        cause=kind,
        run=(is_promotion and rest) or label_of(version, RUN_LABEL),
        reasons=reasons,
        by="" if kind == ROLLBACK or is_promotion else rest,
    )
