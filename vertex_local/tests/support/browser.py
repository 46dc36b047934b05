"""Pages as Chromium draws them, at the width of a desktop and of a phone."""

import json
import re
import shutil
import subprocess
from collections.abc import Sequence
from html import unescape
from pathlib import Path

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
WIDTHS = (1300, 400)
TIMEOUT_SECONDS = 90
SCHEMES = {"dark": 0, "light": 1}
# Functions for a script in a page, which has `behind(element)`: the colour behind an element.
CONTRAST = """
const parts = (text) => text.match(/[\\d.]+/g).map(Number);
const shade = (part) => part <= 10.0064 ? part / 3294.6 : ((part / 255 + .055) / 1.055) ** 2.4;
const light = ([r, g, b]) => .2126 * shade(r) + .7152 * shade(g) + .0722 * shade(b);
function contrastOf(one) {
  const style = getComputedStyle(one), drawn = one.closest("svg") ? style.fill : style.color;
  const [a, b] = [light(parts(drawn)), light(behind(one))].sort((x, y) => y - x);
  return (a + .05) / (b + .05);
}"""
# A frame has any width; the window of Chromium has at least 500 pixels.
FRAMES = """<body><pre id="found"></pre><script>
const found = [];
onmessage = (event) => { found.push(event.data);
  document.getElementById("found").textContent = "[" + found.join(",") + "]"; };
</script>%s</body>"""


def measured(names: Sequence[str], folder: Path, *, scheme: str) -> list[dict]:
    """Return what the scripts of a folder's pages post, of each page at each width."""
    shown = [
        f'<iframe src="{name}" width="{width}" height="900"></iframe>'
        for name in names
        for width in WIDTHS
    ]
    (folder / "frames.html").write_text(FRAMES % "".join(shown))
    drawn = dumped(f"file://{folder / 'frames.html'}", folder, scheme=scheme)
    found = re.search(r'<pre id="found">(.*?)</pre>', drawn, re.DOTALL)
    assert found, drawn[-2000:]
    return json.loads(unescape(found[1]))


def dumped(url: str, folder: Path, *, scheme: str = "light") -> str:
    """Return a page as it is after five seconds in Chromium."""
    color = f"--blink-settings=preferredColorScheme={SCHEMES[scheme]}"
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=5000", color]
    return subprocess.run(
        [str(CHROMIUM), *flags, f"--user-data-dir={folder / 'profile'}", "--dump-dom", url],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=True,
    ).stdout
