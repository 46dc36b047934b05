"""Errors about data."""

from components.errors import StepError


class DataError(StepError, ValueError):
    """Unusable data or options; the message names the file or field and what to do."""


class RouteError(Exception):
    """A route of fetching failed; the next one is tried."""


class DamagedError(RouteError):
    """A downloaded file is truncated or has another checksum."""
