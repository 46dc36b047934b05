"""Draw a run's output in colours as docs/pictures/run.png.

FORCE_COLOR=1 trainyard run mnist > run.ansi; python docs/pictures/draw_run.py run.ansi
"""

import re
import sys
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

FONTS = "/usr/share/fonts/truetype/dejavu/DejaVuSansMono{}.ttf"
SIZE, LINE, MARGIN, COLUMNS = 18, 22, 12, 112
BACKGROUND, TEXT = "#292929", "#c5c8c6"
COLOURS = {"32": "#98a855", "33": "#d0b344", "31": "#cc555a"}
STYLE = re.compile(r"\x1b\[([0-9;]*)m")
CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-LN-Za-ln-z]")
FIRST = re.compile(r"\x1b\[1m|page: |  \x1b\[32m✓")  # lines before the table, without progress


def lines_of(text: str) -> list[str]:
    """Return the lines that stay on a terminal, without the progress of running tasks."""
    lines = re.split("[\r\n]", CONTROL.sub("", text))
    table = next(at for at, line in enumerate(lines) if STYLE.sub("", line).startswith("task "))
    kept = ["\x1b[1m$ make run-local\x1b[0m", *filter(FIRST.match, lines[:table]), ""]
    shown = [*kept, *lines[table:]]
    return [line[at : at + COLUMNS] for line in shown for at in range(0, len(line) or 1, COLUMNS)]


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
    return image


if __name__ == "__main__":
    source = Path(sys.argv[1]).read_text(encoding="utf-8")
    draw(lines_of(source.rstrip())).save(Path(__file__).with_name("run.png"), optimize=True)
