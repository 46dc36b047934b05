"""The pages as Chromium draws them, on a desktop and on a phone, light and dark."""

import json
import re
import shutil
import subprocess
from html import unescape
from pathlib import Path

import pytest
from werkzeug.serving import make_server

from vertex_local import console
from vertex_local.app import Application
from vertex_local.tests.support.console_records import (
    FACTS,
    PARENT,
    add_endpoint,
    add_job,
    add_model,
    add_run,
    add_schedule,
    add_study,
)
from vertex_local.tests.support.http_server import running

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
WIDTHS = (1300, 400)
TIMEOUT_SECONDS = 90
LEAST_CONTRAST = 4.5
SCHEMES = {"dark": 0, "light": 1}
# Runs in a page: what is wider than it, and texts with too little contrast to what is behind them.
MEASURE = """<script>
const parts = (text) => text.match(/[\\d.]+/g).map(Number);
const shade = (part) => part <= 10.0064 ? part / 3294.6 : ((part / 255 + .055) / 1.055) ** 2.4;
const light = ([r, g, b]) => .2126 * shade(r) + .7152 * shade(g) + .0722 * shade(b);
function behind(one) {
  for (; one; one = one.parentElement) {
    const rect = one.tagName === "g" && one.querySelector("rect");
    const color = rect ? getComputedStyle(rect).fill : getComputedStyle(one).backgroundColor;
    if (color.startsWith("rgb") && (parts(color)[3] ?? 1) > 0) return parts(color);
  }
}
const wide = [], pale = [];
let least = 21, texts = 0;
for (const one of document.querySelectorAll("body *")) {
  const box = one.getBoundingClientRect();
  if (!box.width || one.closest("title, script, style, .skip, .hidden")) continue;
  const isWide = !one.closest(".scroll, pre") && box.right > innerWidth + 1;
  if (isWide) wide.push(one.outerHTML.slice(0, 80));
  if (![...one.childNodes].some((node) => node.nodeType === 3 && node.data.trim())) continue;
  const style = getComputedStyle(one), drawn = one.closest("svg") ? style.fill : style.color;
  const [a, b] = [light(parts(drawn)), light(behind(one))].sort((x, y) => y - x);
  const contrast = (a + .05) / (b + .05);
  texts += 1;
  least = Math.min(least, contrast);
  if (contrast < 4.5) pale.push(one.outerHTML.slice(0, 80));
}
const scroll = document.documentElement.scrollWidth;
parent.postMessage(JSON.stringify({width: innerWidth, scroll, wide, pale, least, texts}), "*");
</script>"""
# A frame has any width; the window of Chromium has at least 500 pixels.
FRAMES = """<body><pre id="found"></pre><script>
const found = [];
onmessage = (event) => { found.push(event.data);
  document.getElementById("found").textContent = "[" + found.join(",") + "]"; };
</script>%s</body>"""


@pytest.fixture
def pages(client, service) -> dict[str, str]:
    """Return each kind of page with long names and every state."""
    long_name = "a-very-long-name-of-a-run-" * 3 + "x"
    add_run(service, "night", **FACTS)
    add_run(service, long_name, **{**FACTS, "tone": "bad", "outcome": "gate-failed"})
    add_job(service, "night")
    add_study(service)
    add_endpoint(service, add_model(service, run_id="night"))
    add_schedule(service, state="PAUSED")
    compared = f"run1={PARENT}/pipelineJobs/night&run2={PARENT}/pipelineJobs/{long_name}"
    paths = (
        *("/runs?show=train.epochs", f"/runs/p/l/{long_name}", "/runs/p/l/night/tasks/train"),
        *(f"/compare?{compared}", "/jobs", "/jobs/p/l/night", "/tuning", "/tuning/p/l/5"),
        *("/models", "/models/p/l/taxi", "/endpoints", "/endpoints/p/l/9", "/schedules"),
    )
    return {path: client.get(path).get_data(as_text=True) for path in paths}


def measured(pages: dict[str, str], folder: Path, scheme: str) -> list[dict]:
    """Return what Chromium measures of each page at each width."""
    frames = []
    for number, page in enumerate(pages.values()):
        still = page.replace(" data-live", "").replace("</body>", f"{MEASURE}</body>")
        (folder / f"{number}.html").write_text(still)
        frames += [
            f'<iframe src="{number}.html" width="{w}" height="900"></iframe>' for w in WIDTHS
        ]
    (folder / "frames.html").write_text(FRAMES % "".join(frames))
    color = f"--blink-settings=preferredColorScheme={SCHEMES[scheme]}"
    drawn = dumped(f"file://{folder / 'frames.html'}", folder, color)
    found = re.search(r'<pre id="found">(.*?)</pre>', drawn, re.DOTALL)
    assert found, drawn[-2000:]
    return json.loads(unescape(found[1]))


def dumped(url: str, folder: Path, *flags: str) -> str:
    """Return a page as it is after five seconds in Chromium."""
    flags = (*flags, "--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=5000")
    command = [str(CHROMIUM), *flags, f"--user-data-dir={folder / 'profile'}", "--dump-dom", url]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=True
    ).stdout


@pytest.mark.skipif(not CHROMIUM, reason="Chromium is not installed")
@pytest.mark.parametrize("scheme", SCHEMES)
def test_pages_fit_and_their_texts_have_contrast(tmp_path, pages, scheme):
    found = measured(pages, tmp_path, scheme)

    assert len(found) == len(pages) * len(WIDTHS)
    for one in found:
        assert one["wide"] == []
        assert one["scroll"] <= one["width"]
        assert one["pale"] == []
        assert one["texts"] > 10
        assert one["least"] >= LEAST_CONTRAST


@pytest.mark.skipif(not CHROMIUM, reason="Chromium is not installed")
@pytest.mark.parametrize("is_marked", [False, True], ids=["plain", "with a marked run"])
def test_a_page_shows_what_happens_after_it_was_loaded(tmp_path, service, is_marked):
    """Unless that would lose the marks of a user."""
    application = Application(service, console.ROUTES)
    add_run(service, "early", **FACTS)

    def then_a_run_starts(environ, start_response):
        page = b"".join(application(environ, start_response))
        if service.store.find(f"{PARENT}/pipelineJobs/late") is None:
            add_run(service, "late", **FACTS)
        # Of the same length, which the header says.
        return [page.replace(b"aria-label", b"checked id") if is_marked else page]

    with running(make_server("127.0.0.1", 0, then_a_run_starts)) as server:
        drawn = dumped(f"http://127.0.0.1:{server.port}/runs", tmp_path)
    assert ("compare late" in drawn) is not is_marked
    assert "compare early" in drawn
    assert 'class="lost"' not in drawn
