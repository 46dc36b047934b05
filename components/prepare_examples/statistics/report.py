"""The page of a dataset: each feature in all splits, and in earlier data, in one drawing."""

from collections import Counter
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from types import MappingProxyType

from components.prepare_examples.statistics.cards import card
from components.prepare_examples.statistics.drift import NOTICEABLE
from components.prepare_examples.statistics.schema import Anomaly
from components.shared.pages.html import details, number, section, table, tiles
from components.shared.pages.page import fill
from trainer import Json

FILE = "report.html"
NUM_REMARKS = 20
ORDERS = {
    "": "as in the data",
    "name": "name",
    "remarks": "remarks",
    "missing": "missing",
    "distinct": "distinct values",
    "psi": "PSI",
}


def render(
    manifest: Json,
    statistics: Json,
    *,
    rule: str,
    anomalies: Sequence[Anomaly] = (),
    earlier: Mapping[str, Json] = MappingProxyType({}),
) -> str:
    """Return the page, which loads nothing from the network and can be read without its script.

    Args:
        manifest: with the workload, the label in words, and the names of classes of images.
        statistics: of all splits.
        rule: of the split, in words.
        anomalies: of all splits.
        earlier: train splits of earlier data by name, such as the champion's.
    """
    data = {**statistics["splits"], **earlier}
    labels = manifest.get("labels", ())
    names = dict.fromkeys(name for part in data.values() for name in part["features"])
    places = {name: f"feature-{place}" for place, name in enumerate(names)}
    remarks = Counter(anomaly.feature for anomaly in anomalies)
    cards = [
        card(
            name,
            [part["features"].get(name) for part in data.values()],
            sets={of: of in earlier for of in data},
            place=places[name],
            num_remarks=remarks[name],
            labels=labels if name == "label" else (),
        )
        for name in names
    ]
    counts = [(f"{part['num_examples']:,}", name, "examples") for name, part in data.items()]
    here = Path(__file__)
    note = (
        "Drawings of numbers are cut at the first and the last percentile. PSI is the population"
        " stability index: of eval and test as compared with train, of train as compared with"
        f" earlier data; below {NOTICEABLE:g} hardly any change, of few examples more by chance."
    )
    body = (
        section("Examples", tiles(counts)),
        section("Remarks", _remarks(anomalies, places)),
        section("Pixels", _pixels(data)),
        section(
            "Features", _controls(), f'<div class="features">{"".join(cards)}</div>', note=note
        ),
    )
    return fill(
        f"Data of {manifest['workload']}",
        "".join(body),
        about=f"{rule} · label {manifest['label']}" if "label" in manifest else rule,
        style=here.with_suffix(".css").read_text(encoding="utf-8"),
        script=here.with_suffix(".js").read_text(encoding="utf-8"),
    )


def _controls() -> str:
    options = "".join(f'<option value="{key}">{words}' for key, words in ORDERS.items())
    return (
        '<div class="controls"><label><input type="checkbox" id="log"> log scale</label>'
        '<span hidden><input type="search" id="search" aria-label="search" placeholder="search">'
        f'<label>order <select id="order">{options}</select></label><output id="shown"></output>'
        "</span></div>"
    )


def _remarks(anomalies: Sequence[Anomaly], places: Mapping[str, str]) -> str:
    if not anomalies:
        return "<p>No anomalies.</p>"
    rows = [
        f'<li>{a.severity}: {escape(a.split)} <a href="#{places.get(a.feature, "")}">'
        f"{escape(a.feature)}</a> {escape(a.reason)}</li>"
        for a in anomalies
    ]
    more = rows[NUM_REMARKS:]
    hidden = details(f"{len(more):,} more remarks", f"<ul>{''.join(more)}</ul>") if more else ""
    return f"<ul>{''.join(rows[:NUM_REMARKS])}</ul>{hidden}"


def _pixels(data: Mapping[str, Json]) -> str:
    pixels = {name: part["pixels"] for name, part in data.items() if "pixels" in part}
    rows = [
        (escape(name), *(f"{number(m)} ± {number(s)}" for m, s in zip(*of.values(), strict=True)))
        for name, of in pixels.items()
    ]
    channels = range(1, len(rows[0]) if rows else 0)
    return table(("", *(f"channel {c}" for c in channels)), rows, css="numbers") if rows else ""
