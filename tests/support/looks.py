"""Pages as Chromium draws them, at the width of a desktop and of a phone."""

import json
import re
import shutil
import subprocess
from html import unescape
from pathlib import Path

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
WIDTHS = (1300, 400)
TIMEOUT_SECONDS = 90
SCHEMES = {"dark": 0, "light": 1}
MIN_FONT_PIXELS = 8.5
SECURITY = re.compile(r'<meta http-equiv="Content-Security-Policy"[^>]*>')
# Runs in the page with all parts unfolded: what is wider than it, what a drawing cuts off, the
# smallest letters, texts with too little contrast, and the height as it is first seen.
MEASURE = """<script>
const page = document.documentElement, wide = [], cut = [], small = [], pale = [];
const height = page.scrollHeight;
for (const part of document.querySelectorAll("details")) part.open = true;
const parts = (text) => text.match(/[\\d.]+/g).map(Number);
const shade = (part) => part <= 10.0064 ? part / 3294.6 : ((part / 255 + .055) / 1.055) ** 2.4;
const light = ([r, g, b]) => .2126 * shade(r) + .7152 * shade(g) + .0722 * shade(b);
function behind(one) {  // of cells whose colour is mixed or half transparent, that of the page
  for (; one; one = one.parentElement) {
    const color = getComputedStyle(one).backgroundColor;
    if (color.startsWith("rgb") && (parts(color)[3] ?? 1) > .5) return parts(color);
  }
  return [255, 255, 255];
}
for (const one of document.querySelectorAll("body *")) {
  const box = one.getBoundingClientRect(), scrolled = one.closest(".wide, pre");
  if (one.closest("script") || !box.width) continue;
  if (!scrolled && box.right > innerWidth + 1) wide.push(one.outerHTML.slice(0, 80));
  if (![...one.childNodes].some((node) => node.nodeType === 3 && node.data.trim())) continue;
  const style = getComputedStyle(one), drawn = one.closest("svg") ? style.fill : style.color;
  const [a, b] = [light(parts(drawn)), light(behind(one))].sort((x, y) => y - x);
  if ((a + .05) / (b + .05) < 4.5) pale.push(one.outerHTML.slice(0, 80));
}
for (const text of document.querySelectorAll("svg text")) {
  const box = text.getBoundingClientRect(), svg = text.ownerSVGElement;
  const frame = svg.getBoundingClientRect(), scale = frame.width / svg.viewBox.baseVal.width;
  if (box.left < frame.left - 1 || box.right > frame.right + 1 || box.top < frame.top - 1
      || box.bottom > frame.bottom + 1) cut.push(text.textContent);
  if (frame.width) small.push(parseFloat(getComputedStyle(text).fontSize) * scale);
}
const found = {width: innerWidth, wide, cut, pale, least: Math.min(...small), height,
               texts: small.length, scroll: page.scrollWidth};
parent.postMessage(JSON.stringify(found), "*");
</script>"""
# A frame has any width; the window of Chromium has at least 500 pixels.
FRAMES = """<body><pre id="found"></pre><script>
const found = [];
onmessage = (event) => { found.push(event.data);
  document.getElementById("found").textContent = "[" + found.join(",") + "]"; };
</script>%s</body>"""


def measured(page: str, folder: Path, scheme: str) -> list[dict]:
    """Return what Chromium measures of a page at each width, the widest first."""
    (folder / "page.html").write_text(SECURITY.sub("", page).replace("</body>", MEASURE))
    frames = [f'<iframe src="page.html" width="{w}" height="900"></iframe>' for w in WIDTHS]
    drawn = dumped(FRAMES % "".join(frames), folder, scheme=scheme)
    found = re.search(r'<pre id="found">(.*?)</pre>', drawn, re.DOTALL)
    assert found, drawn[-2000:]
    return sorted(json.loads(unescape(found[1])), key=lambda one: -one["width"])


def dumped(page: str, folder: Path, *, scheme: str = "light") -> str:
    """Return a page as it is after five seconds in Chromium."""
    (folder / "drawn.html").write_text(page)
    color = f"--blink-settings=preferredColorScheme={SCHEMES[scheme]}"
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=5000", color]
    profile = f"--user-data-dir={folder / 'profile'}"
    return subprocess.run(
        [str(CHROMIUM), *flags, profile, "--dump-dom", f"file://{folder / 'drawn.html'}"],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=True,
    ).stdout
