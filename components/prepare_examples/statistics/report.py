"""The page of a dataset: each feature in all splits, and in earlier data, in one drawing."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from components.prepare_examples.statistics.cards import card
from components.prepare_examples.statistics.drift import NOTICEABLE
from components.prepare_examples.statistics.schema import Anomaly
from components.shared.pages.page import fill, render
from trainer import Json

FILE = "report.html"


def data_page(
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
    here = Path(__file__)
    body = render(
        "prepare_examples/statistics/report.html",
        counts=[(f"{part['num_examples']:,}", name, "examples") for name, part in data.items()],
        anomalies=anomalies,
        places=places,
        pixels={name: part["pixels"] for name, part in data.items() if "pixels" in part},
        cards=cards,
        sets=list(data),
        noticeable=f"{NOTICEABLE:g}",
    )
    return fill(
        f"Data of {manifest['workload']}",
        body,
        about=f"{rule} · label {manifest['label']}" if "label" in manifest else rule,
        style=here.with_suffix(".css").read_text(encoding="utf-8"),
        script=here.with_suffix(".js").read_text(encoding="utf-8"),
    )
