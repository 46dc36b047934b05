"""The pages as Chromium draws them, on a desktop and on a phone, light and dark."""

from pathlib import Path

import pytest
from werkzeug.serving import make_server

from vertex_local import console
from vertex_local.app import Application
from vertex_local.tests.support.browser import CHROMIUM, CONTRAST, SCHEMES, WIDTHS, dumped, measured
from vertex_local.tests.support.console_records import (
    FACTS,
    PARENT,
    add_batch,
    add_endpoint,
    add_job,
    add_model,
    add_run,
    add_schedule,
    add_study,
)
from vertex_local.tests.support.http_server import running

LEAST_CONTRAST = 4.5
# Runs in a page: what is wider than it, and texts with too little contrast to what is behind them.
MEASURE = (
    f"<script>{CONTRAST}"
    + """
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
  const contrast = contrastOf(one);
  texts += 1;
  least = Math.min(least, contrast);
  if (contrast < 4.5) pale.push(one.outerHTML.slice(0, 80));
}
const scroll = document.documentElement.scrollWidth;
parent.postMessage(JSON.stringify({width: innerWidth, scroll, wide, pale, least, texts}), "*");
</script>"""
)


@pytest.fixture
def pages(client, service) -> dict[str, str]:
    """Return each kind of page with long names and every state."""
    long_name = "a-very-long-name-of-a-run-" * 3 + "x"
    add_run(service, "night", **FACTS)
    add_run(
        service,
        long_name,
        **{**FACTS, "tone": "bad", "outcome": "gate-failed", "workload": long_name},
    )
    add_job(service, "night")
    add_study(service)
    model = add_model(service, run_id="night")
    add_endpoint(service, model)
    add_batch(service, model)
    add_schedule(service, state="PAUSED")
    compared = f"run1={PARENT}/pipelineJobs/night&run2={PARENT}/pipelineJobs/{long_name}"
    paths = (
        "/",
        "/runs?show=train.epochs",
        f"/runs/p/l/{long_name}",
        "/runs/p/l/night/tasks/train",
        f"/compare?{compared}",
        "/jobs",
        "/jobs/p/l/night",
        "/tuning",
        "/tuning/p/l/5",
        "/models",
        "/models/p/l/taxi",
        "/endpoints",
        "/endpoints/p/l/9",
        "/schedules",
        "/batch",
        "/batch/p/l/6",
    )
    return {path: client.get(path).text for path in paths}


def measure(pages: dict[str, str], folder: Path, scheme: str) -> list[dict]:
    """Return what Chromium measures of each page at each width."""
    for number, page in enumerate(pages.values()):
        still = page.replace(" data-live", "").replace("</body>", f"{MEASURE}</body>")
        (folder / f"{number}.html").write_text(still)
    return measured([f"{number}.html" for number in range(len(pages))], folder, scheme=scheme)


@pytest.mark.skipif(not CHROMIUM, reason="Chromium is not installed")
@pytest.mark.parametrize("scheme", SCHEMES)
def test_pages_fit_and_their_texts_have_contrast(tmp_path, pages, scheme):
    found = measure(pages, tmp_path, scheme)

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
