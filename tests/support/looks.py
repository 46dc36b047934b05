"""Reports as Chromium draws them: what does not fit, is too small or has too little contrast."""

import re
from pathlib import Path

from vertex_local.tests.support import browser

MIN_FONT_PIXELS = 8.5
SECURITY = re.compile(r'<meta http-equiv="Content-Security-Policy"[^>]*>')
# Runs in the page with all parts unfolded: what is wider than it, what a drawing cuts off, the
# smallest letters, texts with too little contrast, and the height as it is first seen.
MEASURE = (
    f"<script>{browser.CONTRAST}"
    + """
const page = document.documentElement, wide = [], cut = [], small = [], pale = [];
const height = page.scrollHeight;
for (const part of document.querySelectorAll("details")) part.open = true;
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
  if (contrastOf(one) < 4.5) pale.push(one.outerHTML.slice(0, 80));
}
for (const text of document.querySelectorAll("svg text")) {
  const box = text.getBoundingClientRect(), svg = text.ownerSVGElement;
  const frame = svg.getBoundingClientRect(), scale = frame.width / svg.viewBox.baseVal.width;
  if (box.left < frame.left - 1 || box.right > frame.right + 1 || box.top < frame.top - 1
      || box.bottom > frame.bottom + 1) cut.push(text.textContent);
  if (frame.width) small.push(parseFloat(getComputedStyle(text).fontSize) * scale);
}
const scrolling = [...document.querySelectorAll(".wide")].filter((one) =>
  !one.closest("details") && one.scrollWidth > one.clientWidth + 1)
  .map((one) => one.outerHTML.slice(0, 80));
const found = {scrolling, page: location.pathname, width: innerWidth, wide, cut, pale, height,
               least: Math.min(...small), texts: small.length, scroll: page.scrollWidth};
parent.postMessage(JSON.stringify(found), "*");
</script>"""
)


def measured(page: str, folder: Path, scheme: str) -> list[dict]:
    """Return what Chromium measures of a page at each width, the widest first."""
    return all_measured({"page": page}, folder, scheme)["page"]


def all_measured(pages: dict[str, str], folder: Path, scheme: str) -> dict[str, list[dict]]:
    """Return what one Chromium measures of pages, by their names."""
    for name, page in pages.items():
        text = SECURITY.sub("", page).replace("</body>", MEASURE)
        (folder / f"{name}.html").write_text(text)
    found = browser.measured([f"{name}.html" for name in pages], folder, scheme=scheme)
    widest_first = sorted(found, key=lambda one: -one["width"])
    return {name: [one for one in widest_first if Path(one["page"]).stem == name] for name in pages}


def dumped(page: str, folder: Path) -> str:
    """Return a page as it is after five seconds in Chromium."""
    (folder / "drawn.html").write_text(page)
    return browser.dumped(f"file://{folder / 'drawn.html'}", folder)
