"""What can be wrong with the data or with what was asked of it."""


class DataError(ValueError):
    """A problem a user can solve: the message names the file or field and what to do next."""


class RouteError(Exception):
    """One way of fetching data failed; the next one is tried."""


class DamagedError(RouteError):
    """A file arrived cut short, or is not the one that was asked for."""
