"""Commands and links of README.md, CONTRIBUTING.md and docs/*.md."""

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")])
YOUR_OWN = ROOT / "docs" / "your-own.md"
RETRAINING = ROOT / "docs" / "retraining.md"
RUNS = ROOT / "docs" / "runs.md"
CHOOSING = ROOT / "docs" / "choosing.md"
OLD_COMMANDS = ROOT / "docs" / "from-old-commands.md"
PROGRAMS = ("trainyard", "vertex-local", "make", "python -m")
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Command:
    """A command line of a page, split into words."""

    line: str
    words: tuple[str, ...]


def commands_of(page: Path) -> list[Command]:
    """Return the commands in a page's shell blocks, in order."""
    blocks = [text for language, text in BLOCK.findall(page.read_text()) if language == "sh"]
    return commands_in("".join(blocks))


def commands_in(text: str) -> list[Command]:
    """Return the commands of a shell block."""
    lines = text.replace("\\\n", " ").splitlines()
    commands = [Command(line, tuple(shlex.split(line, comments=True))) for line in lines]
    return [command for command in commands if command.words]


def files_of(page: Path) -> dict[str, str]:
    """Return the files that a page shows, by the name in the comment of their first line."""
    found = {}
    for _, text in BLOCK.findall(page.read_text()):
        if named := re.match(r"# ([\w/-]+\.(?:py|yaml))\n", text):
            found[named[1]] = text
    return found


def mentioned_commands(page: Path) -> list[Command]:
    """Return the commands that a page's text mentions in backquotes; they may lack arguments."""
    spans = SPAN.findall(BLOCK.sub("", page.read_text()))
    found = [span for span in spans if span.startswith(tuple(f"{name} " for name in PROGRAMS))]
    return [Command(span, tuple(shlex.split(span))) for span in dict.fromkeys(found)]


def table_rows(page: Path) -> list[list[str]]:
    """Return the cells of a page's tables, without headings."""
    lines = [line for line in page.read_text().splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [row for row in cells if row[0] not in ("old", "---")]


def links_of(page: Path) -> list[str]:
    """Return the targets of a page's links and pictures."""
    return LINK.findall(BLOCK.sub("", page.read_text()))


def anchors_of(page: Path) -> set[str]:
    """Return the anchors that GitHub makes of a page's headings."""
    headings = HEADING.findall(BLOCK.sub("", page.read_text()))
    texts = [re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings]
    return {text.strip().replace(" ", "-") for text in texts}
