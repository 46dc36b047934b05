"""Outputs that pages of the documentation show, printed again by the commands above them.

A `text` block shows what the commands of the `sh` block above it print: all of it or, below a line
`<!-- shows: verdict, data -->`, the entries that begin with these words. The commands between the
section's heading and the block are run, in order, in a folder with the files that the page shows.
"""

import re
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pipelines.resources.names import this_person
from tools.pages import Command, commands_in, files_of

Run = Callable[[Sequence[str]], str]

CODES = (0, 2, 3)  # of commands; mistakes and a failed verdict are shown, too
WIDTH = 118
CUT = "…"
PERSON = "ann@desk"
PART = re.compile(
    r"^#+ (?P<heading>[^\n]*)$"
    r"|^(?:<!-- shows: (?P<heads>[^\n]*) -->\n)?```(?P<language>\w*)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
FIELD = re.compile(r"(?:\S(?:\S| \S)*)?  +(?=\S)")
GAP = re.compile(r"\S  +(?=\S)")
# They differ from run to run, or from machine to machine.
RUN_NAME = re.compile(r"-\d{8}-\d{6}(-[0-9a-f]{4})?\b")
SECONDS = re.compile(r" +[\d.]+ s$", re.MULTILINE)  # `check` says them only from 0.1 s
NUMBER = re.compile(r"[+-]?\d(?:[\d.,]*\d)?(?:e[+-]?\d+)?")
RELATION = re.compile(r"\b(better|worse) than\b")


@dataclass(frozen=True, kw_only=True)
class Output:
    """A block of a page that shows an output.

    Attributes:
        start, end: positions of `text` in the page.
        heads: patterns of the first words of the entries that it shows; empty if it shows all.
        commands: those to run for it, after those of the outputs above.
        num_shown: number of the last commands, whose output it shows.
    """

    heading: str
    text: str
    start: int
    end: int
    heads: tuple[str, ...]
    commands: tuple[Command, ...]
    num_shown: int


def outputs_of(page: Path) -> list[Output]:
    """Return the outputs that a page shows, in order."""
    outputs: list[Output] = []
    heading, commands, num_shown = "", list[Command](), 0
    for part in PART.finditer(page.read_text()):
        if part["heading"] is not None:
            heading, commands = part["heading"], []
        elif part["language"] == "sh":
            block = commands_in(part["text"])
            commands, num_shown = [*commands, *block], len(block)
        elif part["language"] == "text":
            heads = tuple(part["heads"].split(", ")) if part["heads"] else ()
            start, end = part.span("text")
            outputs.append(
                Output(
                    heading=heading,
                    text=part["text"],
                    start=start,
                    end=end,
                    heads=heads,
                    commands=tuple(commands),
                    num_shown=num_shown,
                )
            )
            commands = []
    return outputs


def print_again(
    page: Path, run: Run, folder: Path, *, headings: Sequence[str] = ()
) -> Iterator[tuple[Output, str]]:
    """Yield each output of a page, or of some sections, with what its commands print now.

    The page's files are written to `folder`, in which `run` runs the words of a command.
    """
    for name, text in files_of(page).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    for output in outputs_of(page):
        if not headings or output.heading in headings:
            printed = [run(command.words) for command in output.commands]
            yield output, entries("".join(printed[-output.num_shown :]), output.heads)


def entries(printed: str, heads: Sequence[str]) -> str:
    """Return the lines that begin with one of the heads, each with the indented lines below it."""
    is_shown, lines = not heads, list[str]()
    for line in printed.splitlines():
        if heads and not line[:1].isspace():
            head = re.split("  |: ", line)[0]
            is_shown = any(re.fullmatch(pattern, head) for pattern in heads)
        lines += [line] * is_shown
    return "\n".join(lines).strip("\n") + "\n"


def heads_of(printed: str) -> list[str]:
    """Return the first words of each entry, without the names of runs."""
    lines = [line for line in printed.splitlines() if line[:1].strip()]
    return [RUN_NAME.sub("", re.split("  |: ", line)[0]) for line in lines]


def as_shown(printed: str) -> str:
    """Return an output as a page shows it: in lines of its width, without this person's name."""
    named = re.compile(re.escape(this_person()) + "(  +)?")  # in a column, padded
    text = named.sub(lambda name: f"{PERSON}  ".ljust(len(name[0])) if name[1] else PERSON, printed)
    return "".join(f"{line}\n" for whole in text.splitlines() for line in folded(whole, WIDTH))


def folded(line: str, width: int) -> list[str]:
    """Return the lines of a long line: a field is wrapped, a row of a table is cut."""
    line = line.rstrip()
    if len(line) <= width:
        return [line]
    if len(GAP.findall(line.strip())) > 1:
        return [f"{line[: width - 1].rpartition(' ')[0]} {CUT}"]
    field = FIELD.match(line)
    return textwrap.wrap(line, width, subsequent_indent=" " * len(field[0] if field else ""))


def is_like(shown: str, printed: str) -> bool:
    """Return whether a page shows the words that are printed; numbers and names may differ."""
    parts = [re.escape(_words(part)) for part in shown.split(CUT)]
    return bool(re.fullmatch(r"\s*.*\s*".join(parts), _words(printed)))


def _words(text: str) -> str:
    text = RUN_NAME.sub("", SECONDS.sub("", text).replace(this_person(), PERSON))
    return " ".join(RELATION.sub("better than", NUMBER.sub("0", text)).split())
