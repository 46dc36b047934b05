"""Faults of a script: what cannot be taken over, with its line."""


class ScriptFault(Exception):  # noqa: N818  a script has faults, which are collected
    """Something of a script that cannot be taken over.

    Attributes:
        line: in the script, 0 if none is known.
    """

    def __init__(self, message: str, *, line: int = 0):
        super().__init__(message)
        self.line = line
