"""The files and days of a run, from the time for which it was scheduled."""

import datetime
import json
import logging
import zoneinfo
from collections.abc import Mapping, Sequence
from glob import glob
from typing import Any

from components.prepare_examples.errors import DataError
from components.prepare_examples.output.publish import local_path
from components.prepare_examples.raw_data.files import find_objects
from components.prepare_examples.settings.options import PREVIOUS, PrepareOptions
from components.prepare_examples.settings.patterns import duration, expand, has_dates, moment_of
from components.shared.text.json_object import parse_object
from trainer import paths

UTC = datetime.UTC
MAX_NAMED = 3

logger = logging.getLogger(__name__)


def resolved_text(text: str, moment: datetime.datetime) -> str:
    """Return the parameter `prepare` with the files and days of a moment.

    It depends on these alone: two runs of one night share a cache key, two of different nights do
    not, unless they read the same files. A baseline that depends on other runs is left out.
    """
    values = parse_object(text or "{}", name="prepare")
    changes = _resolved(PrepareOptions.from_json(text), moment)
    if not changes:
        return text
    kept = {name: value for name, value in values.items() if name not in changes}
    changed = {name: value for name, value in changes.items() if value}
    return json.dumps(kept | changed, sort_keys=True)


def resolve(options: PrepareOptions, moment: datetime.datetime) -> PrepareOptions:
    """Return options with the files and days of a moment.

    Raises:
        DataError: no file has a date of the run; names dates and files.
    """
    return options.replace(**_resolved(options, moment))


def run_moment(
    options: PrepareOptions, *, schedule_time: str = "", create_time: str = ""
) -> datetime.datetime:
    """Return the time that a run's dates come from, in the time zone of the run's dates.

    It is `run_date` if that is given, else the time for which a schedule started the run, else the
    time at which it was created, else the present. In a run without a schedule, a placeholder of
    the schedule's time may be the time of creation (as in vertex_local and in KFP's own service,
    https://github.com/kubeflow/pipelines/pull/12627), empty, or unfilled.
    """
    zone = zoneinfo.ZoneInfo(options.run_time_zone or "UTC")
    for text, default in ((options.run_date, zone), (schedule_time, UTC), (create_time, UTC)):
        try:
            return moment_of(text, zone=default).astimezone(zone)
        except ValueError:
            continue
    return datetime.datetime.now(zone)


def _resolved(options: PrepareOptions, moment: datetime.datetime) -> dict[str, Any]:
    """Return the options to replace: those with dates get values, those about dates are emptied."""
    changes: dict[str, Any] = {
        name: "" for name in ("run_date", "run_time_zone", "window") if getattr(options, name)
    }
    if options.baseline == PREVIOUS:
        changes["baseline"] = ""
    is_dated = any(map(has_dates, options.files))
    window = duration(options.window) if options.window else None
    if is_dated:
        changes["files"] = _files(options.files, moment, window)
        if (split := options.declared_split) and split.by == "files":
            parts = split.parts.items()
            dated = {name: list(_files(patterns, moment, window)) for name, patterns in parts}
            changes["split"] = {"by": split.by, **dated}
    if window and (not is_dated or options.time_column):
        last = moment.date() - datetime.timedelta(days=1)  # the moment's day has not ended
        changes["dates"] = ((moment.date() - window).isoformat(), last.isoformat())
    return changes


def _files(
    patterns: Sequence[str], moment: datetime.datetime, window: datetime.timedelta | None
) -> tuple[str, ...]:
    """Return the patterns of the run's dates that match files.

    Raises:
        DataError: a pattern matches no file of any date; names dates and files.
    """
    paths: list[str] = []
    for pattern in patterns:
        dated = expand(pattern, moment, window)
        matching = [path for path in dated if not has_dates(pattern) or _matches(path)]
        if not matching:
            raise DataError(_no_match(pattern, dated))
        if missing := {path: dated[path] for path in dated if path not in matching}:
            logger.warning(
                "%d of %d dates have no file: %s", len(missing), len(dated), _shown(list(missing))
            )
        paths += matching
    return tuple(dict.fromkeys(paths))


def _matches(pattern: str) -> bool:
    if paths.is_in_bucket(pattern):
        return bool(find_objects(pattern))
    return bool(glob(str(local_path(pattern)), recursive=True))


def _no_match(pattern: str, dated: Mapping[str, datetime.datetime]) -> str:
    days = [f"{day:%Y-%m-%d}" for day in dated.values()]
    dates = f"any of {len(days)} dates, {days[0]} to {days[-1]}"
    if len({*days}) == 1:
        dates = f"the date {days[0]}"
    return (
        f"prepare.files {pattern} matches no file for {dates}: looked for {_shown(list(dated))};"
        " correct the pattern, or set prepare.run_date to a date that has files"
    )


def _shown(names: list[str]) -> str:
    if len(names) <= MAX_NAMED:
        return ", ".join(names)
    return f"{', '.join(names[: MAX_NAMED - 1])}, … {names[-1]}"
