"""The pages as Chromium draws them, at the width of a desktop and of a phone."""

import json
import re
import shutil
import subprocess
from html import unescape
from pathlib import Path

import pytest

from components.evaluate.report import render_report
from components.evaluate.thresholds import Judgement
from components.shared.run_report.content import read_content
from components.shared.run_report.page import render
from components.shared.run_summary.summary import summarize
from tests.support.data.report_files import a_number, replicas, run_with_files, two_classes

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
  small.push(parseFloat(getComputedStyle(text).fontSize) * scale);
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
    """Return what Chromium measures of a page at each width."""
    (folder / "page.html").write_text(SECURITY.sub("", page).replace("</body>", MEASURE))
    frames = [f'<iframe src="page.html" width="{w}" height="900"></iframe>' for w in WIDTHS]
    (folder / "frames.html").write_text(FRAMES % "".join(frames))
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=5000"]
    flags.append(f"--blink-settings=preferredColorScheme={SCHEMES[scheme]}")
    profile = f"--user-data-dir={folder / 'profile'}"
    done = subprocess.run(
        [str(CHROMIUM), *flags, profile, "--dump-dom", f"file://{folder / 'frames.html'}"],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=True,
    )
    found = re.search(r'<pre id="found">(.*?)</pre>', done.stdout, re.DOTALL)
    assert found, done.stderr[-2000:]
    return sorted(json.loads(unescape(found[1])), key=lambda one: -one["width"])


def page_of_run(evaluation: dict, folder: Path) -> str:
    job = run_with_files(folder, evaluation=evaluation)
    return render(read_content(job, summarize(job), replicas=[replicas()], folder=folder))


def page_of_evaluation(evaluation: dict, _: Path) -> str:
    return render_report({"workload": "taxi", **evaluation}, Judgement(is_passed=False, reasons=()))


@pytest.mark.skipif(not CHROMIUM, reason="Chromium is not installed")
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("draw", [page_of_run, page_of_evaluation], ids=["run", "evaluation"])
@pytest.mark.parametrize("evaluation", [two_classes(), a_number()], ids=["classes", "number"])
def test_everything_is_in_sight_and_has_contrast_at_both_widths(tmp_path, evaluation, draw, scheme):
    page = draw(evaluation, tmp_path)

    found = measured(page, tmp_path, scheme)

    assert [one["width"] for one in found] == list(WIDTHS)
    for one in found:
        assert one["scroll"] <= one["width"], one["wide"]
        assert one["wide"] == []
        assert one["cut"] == []
        assert one["pale"] == []
        assert one["texts"] > 30
        assert one["least"] >= MIN_FONT_PIXELS


@pytest.mark.skipif(not CHROMIUM, reason="Chromium is not installed")
def test_many_mistakes_add_little_to_the_height_of_a_page(tmp_path):
    few, evaluation = two_classes(), two_classes()
    evaluation["mistakes"] = 12 * evaluation["mistakes"]
    pages = [page_of_evaluation(one, tmp_path) for one in (few, evaluation)]
    heights = [measured(page, tmp_path, "light")[0]["height"] for page in pages]

    assert heights[0] == heights[1]
