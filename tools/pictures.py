"""Outputs and pictures in the documentation, made by runs of today: python -m tools.pictures.

Each page that shows outputs is run in a folder of its own, and its outputs are replaced by what its
commands print now. README's pictures are a run of mnist on a terminal, the report of the second
night of docs/retraining.md, and a run of taxi in the console, as Chromium shows them.
"""

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont
from PIL.PngImagePlugin import PngInfo

from tools.outputs import CODES, as_shown, folded, outputs_of, print_again
from tools.pages import PAGES, RETRAINING, ROOT

PICTURES = ROOT / "docs" / "pictures"
STATE = ".trainyard"
SHOWN_HOME, SHOWN_PORT = "/home/you/trainyard", "127.0.0.1:8085"
TIMEOUT_SECONDS, START_SECONDS = 900, 60
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
BROWSER_FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--hide-scrollbars", "--virtual-time-budget=5000"),
)
NUM_COLOURS = 64

FONTS = "/usr/share/fonts/truetype/dejavu/DejaVuSansMono{}.ttf"
SIZE, LINE, MARGIN, COLUMNS = 18, 22, 12, 112
BACKGROUND, TEXT = "#292929", "#c5c8c6"
COLOURS = {"32": "#98a855", "33": "#d0b344", "31": "#cc555a"}
STYLE = re.compile(r"\x1b\[([0-9;]*)m")
UP, ERASE = "\x1b[1A", "\x1b[2K"
CONTROL = re.compile(r"(\x1b\[1A|\x1b\[2K|[\r\n])|\x1b\[[0-9;?]*[A-LN-Za-ln-z]")


class Home:
    """A user's folder, with state of its own and the data that this clone has downloaded."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        cache = ROOT / STATE / "cache"
        cache.mkdir(parents=True, exist_ok=True)
        (folder / STATE).mkdir(parents=True)
        (folder / STATE / "cache").symlink_to(cache)
        kept = {name: value for name, value in os.environ.items() if not _is_ours(name)}
        self.environment = {**kept, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}

    def run(self, words: Sequence[str], **environment: str) -> str:
        """Return the output of a command."""
        print("$", *words, flush=True)
        done = subprocess.run(
            words,
            check=False,
            cwd=self.folder,
            env={**self.environment, **environment},
            stdout=subprocess.PIPE,
            timeout=TIMEOUT_SECONDS,
        )
        printed = done.stdout.decode()  # with \r
        if done.returncode not in CODES:
            raise SystemExit(f"{' '.join(words)} ended with {done.returncode}:\n{printed}")
        return printed

    @contextmanager
    def serving(self) -> Iterator[str]:
        """Serve the console during the block; return its address."""
        root = self.folder / STATE / "vertex"
        service = subprocess.Popen(
            ["vertex-local", "serve", "--root", str(root)],
            cwd=self.folder,
            env=self.environment,
            stderr=subprocess.DEVNULL,
        )
        try:
            deadline = time.monotonic() + START_SECONDS
            while not (root / "server.json").exists():
                time.sleep(0.1)
                if service.poll() is not None:
                    raise SystemExit("vertex-local serve has ended")
                if time.monotonic() > deadline:
                    raise SystemExit(f"vertex-local serve has no address after {START_SECONDS} s")
            yield str(json.loads((root / "server.json").read_text())["url"])
        finally:
            service.send_signal(signal.SIGTERM)
            service.wait(TIMEOUT_SECONDS)

    def stop(self) -> None:
        """Stop the service that the commands have left, with the endpoints that it serves."""
        self.run(["vertex-local", "stop", "--root", str(self.folder / STATE / "vertex")])


def _is_ours(variable: str) -> bool:
    return variable.startswith(("TRAINYARD_", "VERTEX_", "AIP_", "GOOGLE_CLOUD_"))


def write_outputs(page: Path, home: Home) -> None:
    """Write what a page's commands print now into the page."""
    text = page.read_text()
    made = list(print_again(page, home.run, home.folder))
    for output, printed in reversed(made):
        text = text[: output.start] + as_shown(printed) + text[output.end :]
    page.write_text(text)


def draw_run(home: Home) -> None:
    """Draw a first run of mnist on a terminal."""
    printed = home.run(["trainyard", "run", "mnist"], FORCE_COLOR="1", COLUMNS=str(COLUMNS))
    printed = printed.replace(str(home.folder), SHOWN_HOME)
    printed = re.sub(r"127\.0\.0\.1:\d+", SHOWN_PORT, printed).rstrip()
    lines = ["\x1b[1m$ make run-local\x1b[0m", *lines_of(printed)]
    about = PngInfo()
    about.add_text("Description", STYLE.sub("", "\n".join(lines)))  # for tests/docs
    draw(lines).save(PICTURES / "run.png", optimize=True, pnginfo=about)


def lines_of(printed: str) -> list[str]:
    """Return the lines that stay on a terminal, without the progress of running tasks."""
    lines, row, is_at_start = [""], 0, True
    for part in filter(None, CONTROL.split(printed)):
        if part == "\n":
            row += 1
            lines += [""] * (row == len(lines))
        elif part == UP:
            row -= 1
        elif part == ERASE:
            lines[row] = ""
        elif part != "\r":
            lines[row] = part if is_at_start else lines[row] + part
        is_at_start = part in ("\n", "\r")
    return [line for whole in lines for line in folded(whole, COLUMNS)]


def draw(lines: list[str]) -> Image.Image:
    """Return the picture of lines with colours and bold text."""
    fonts = {name: ImageFont.truetype(FONTS.format(name), SIZE) for name in ("", "-Bold")}
    width = round(fonts[""].getlength("m") * COLUMNS) + 2 * MARGIN
    image = Image.new("RGB", (width, LINE * len(lines) + 2 * MARGIN), BACKGROUND)
    pen = ImageDraw.Draw(image)
    for row, line in enumerate(lines):
        x, colour, weight = float(MARGIN), TEXT, ""
        for at, part in enumerate(STYLE.split(line)):
            if at % 2:
                codes = part.split(";")
                colour = next((COLOURS[code] for code in codes if code in COLOURS), TEXT)
                weight = "-Bold" if "1" in codes else ""
            else:
                pen.text((x, MARGIN + row * LINE), part, fill=colour, font=fonts[weight])
                x += fonts[weight].getlength(part)
    return image.quantize(NUM_COLOURS, Image.Quantize.FASTOCTREE)  # keeps colours of few pixels


def draw_report(home: Home, browser: str) -> None:
    """Draw the report of the newest promoted run of a home."""
    runs = json.loads(home.run(["trainyard", "runs", "list", "--json"]))
    promoted = next(run["run"] for run in runs if run["outcome"] == "promoted")
    report = home.folder / STATE / "runs" / promoted / "report.html"
    draw_page(report.as_uri(), "report", browser, size="1300,1130")


def draw_console(home: Home, browser: str) -> None:
    """Draw the page of a first run of taxi."""
    with home.serving() as url:
        home.run(["trainyard", "run", "taxi"])
        [run] = json.loads(home.run(["trainyard", "runs", "list", "--json", "--limit", "1"]))
        page = f"{url}/runs/local/us-central1/{run['run']}"
        draw_page(page, "console", browser, size="1200,1036")


def draw_page(url: str, name: str, browser: str, *, size: str) -> None:
    """Draw a page as a browser shows it."""
    with tempfile.TemporaryDirectory() as folder:
        drawn = Path(folder, f"{name}.png")
        subprocess.run(
            [
                browser,
                *BROWSER_FLAGS,
                f"--user-data-dir={folder}/profile",
                f"--window-size={size}",
                f"--screenshot={drawn}",
                url,
            ],
            check=True,
            capture_output=True,
            timeout=TIMEOUT_SECONDS,
        )
        with Image.open(drawn) as image:
            image.convert("RGB").quantize(NUM_COLOURS).save(PICTURES / f"{name}.png", optimize=True)


def main(arguments: Sequence[str] | None = None) -> None:
    """Make all again, or the outputs of the pages that are named."""
    parser = argparse.ArgumentParser(prog="python -m tools.pictures", description=__doc__)
    parser.add_argument("pages", nargs="*", type=Path, help="only the outputs of these pages")
    pages = parser.parse_args(arguments).pages
    browser = next(filter(None, map(shutil.which, BROWSERS)), "")
    if not pages and not browser:
        raise SystemExit("make pictures needs Chromium to draw pages (Debian: chromium).")
    if not pages and not Path(FONTS.format("")).exists():
        raise SystemExit(
            "make pictures needs the font DejaVu Sans Mono (Debian: fonts-dejavu-core)."
        )
    with tempfile.TemporaryDirectory(prefix="pictures-") as folder, ExitStack() as homes:

        def new_home(name: str) -> Home:
            home = Home(Path(folder, name))
            homes.callback(home.stop)
            return home

        for page in (page.resolve() for page in pages or PAGES):
            if outputs_of(page):
                home = new_home(page.stem)
                write_outputs(page, home)
                if page == RETRAINING and not pages:
                    draw_report(home, browser)
        if not pages:
            home = new_home("trainyard")
            draw_run(home)
            draw_console(home, browser)


if __name__ == "__main__":
    main()
