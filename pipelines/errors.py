"""Errors of commands that their message explains, apart from what raises them.

`trainyard` catches them all, without importing the modules of the commands that are not used.
"""


class ResourceError(ValueError):
    """The resource does not exist, or its state or an argument does not allow the action."""


class RegistryError(Exception):
    """The repository of packages refused a request or did not respond."""


class ServiceError(Exception):
    """This machine's service did not start, does not respond, or runs in another mode."""
