"""Trust in a model from another author: a model is a program, and runs with the user's rights."""

import argparse
from collections.abc import Iterable
from dataclasses import dataclass

CODE_FLAG, GRAPH_FLAG = "--trust-code", "--trust-graph"


@dataclass(frozen=True, kw_only=True)
class Trust:
    """Permission to load the code that a model names, and a graph that reaches outside the model.

    It is given once, where a model comes in. A version keeps it in the arguments of its server.
    """

    code: bool = False
    graph: bool = False

    def flags(self) -> list[str]:
        """Return the flags that `from_flags` reads."""
        return [CODE_FLAG] * self.code + [GRAPH_FLAG] * self.graph

    @classmethod
    def from_flags(cls, flags: Iterable[str]) -> "Trust":
        """Return the trust that the arguments of a prediction server give."""
        words = set(flags)
        return cls(code=CODE_FLAG in words, graph=GRAPH_FLAG in words)


STRANGER = Trust()
OWN = Trust(code=True, graph=True)  # in a model that a job of the user wrote


def add_trust_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags that `trust_of` reads."""
    group = parser.add_argument_group(
        "trust",
        "A model is a program: it can do what you can do. Give these if you trust its author.",
    )
    group.add_argument(
        CODE_FLAG,
        action="store_true",
        help="load the Python code that the model's workload.json names; not needed for the code "
        "of your own runs",
    )
    group.add_argument(
        GRAPH_FLAG,
        action="store_true",
        help="load a graph whose operations read or write files or run Python",
    )


def trust_of(arguments: argparse.Namespace) -> Trust:
    """Return the trust of parsed arguments."""
    return Trust(code=arguments.trust_code, graph=arguments.trust_graph)
