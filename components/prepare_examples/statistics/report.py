"""The HTML report: each feature's histograms side by side, anomalies and drift."""

import html
from collections.abc import Mapping, Sequence
from pathlib import Path
from string import Template

from components.prepare_examples.statistics.drift import Drift
from components.prepare_examples.statistics.schema import Anomaly
from trainer import Json

FILE = "report.html"
WIDTH, HEIGHT, NUM_BARS = 260, 90, 20


def render(
    title: str,
    columns: Mapping[str, Json],
    *,
    rule: str,
    anomalies: Sequence[Anomaly] = (),
    drifts: Sequence[Drift] = (),
) -> str:
    """Return the page, which loads nothing from the network.

    `columns` are the splits or runs to show side by side: {name: {"num_examples", "features"}}.
    """
    names = list(dict.fromkeys(name for column in columns.values() for name in column["features"]))
    template = Template(Path(__file__).with_name("report.html").read_text(encoding="utf-8"))
    return template.substitute(
        title=html.escape(title),
        rule=html.escape(rule),
        anomalies=_anomalies(anomalies),
        drift=_drift(drifts),
        head="".join(
            f"<th>{html.escape(name)} ({column['num_examples']:,})</th>"
            for name, column in columns.items()
        ),
        rows="\n".join(_row(name, columns) for name in names),
    )


def _row(name: str, columns: Mapping[str, Json]) -> str:
    cells = [
        _cell(column["features"][name]) if name in column["features"] else "<td>absent</td>"
        for column in columns.values()
    ]
    return f"<tr><th>{html.escape(name)}</th>{''.join(cells)}</tr>"


def _cell(feature: Json) -> str:
    total = feature["num_present"] + feature["num_missing"]
    what = "tokens" if "tokens" in feature else "distinct"
    facts = [f"{feature['num_unique']:,}{'' if feature['is_exact'] else '+'} {what}"]
    if feature.get("is_list"):
        facts.append(f"{feature['num_values']:,} values in lists")
    if feature["num_missing"]:
        facts.append(f"<b>{feature['num_missing'] / total:.1%} missing</b>")
    if feature.get("mean") is not None:
        facts.append(f"{feature['min']:.6g} to {feature['max']:.6g}")
        facts.append(f"mean {feature['mean']:.6g} ± {feature['std']:.6g}")
    return f"<td>{_bars(*_heights(feature))}<p>{' · '.join(facts)}</p></td>"


def _heights(feature: Json) -> tuple[list[str], list[float]]:
    """Return labels and heights: of the most frequent values, or of 20 bins of equal width."""
    top = feature["top_values"]
    if feature["type"] == "STRING" or (top and feature["num_unique"] <= NUM_BARS):
        shown = top[:NUM_BARS] if feature["type"] == "STRING" else sorted(top)
        return [f"{value}: {count:,}" for value, count in shown], [count for _, count in shown]
    quantiles = feature["quantiles"]
    if not quantiles:
        return [], []
    low, high = quantiles[1], quantiles[99]
    step = (high - low) / NUM_BARS or 1.0
    counts = [0] * NUM_BARS
    for value in quantiles[1:100]:
        counts[min(int((value - low) / step), NUM_BARS - 1)] += 1
    labels = [f"from {low + step * bar:.6g}: {count} %" for bar, count in enumerate(counts)]
    return labels, [float(count) for count in counts]


def _bars(labels: Sequence[str], heights: Sequence[float]) -> str:
    highest = max(heights, default=0) or 1
    width = WIDTH / max(len(heights), 1)
    bars = [
        f'<rect x="{index * width:.1f}" y="{HEIGHT * (1 - height / highest):.1f}" '
        f'width="{max(width - 1, 1):.1f}" height="{HEIGHT * height / highest:.1f}">'
        f"<title>{html.escape(label)}</title></rect>"
        for index, (label, height) in enumerate(zip(labels, heights, strict=True))
    ]
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img">{"".join(bars)}</svg>'


def _anomalies(anomalies: Sequence[Anomaly]) -> str:
    if not anomalies:
        return "<p>No anomalies.</p>"
    lines = (f'<li class="{a.severity}">{html.escape(str(a))}</li>' for a in anomalies)
    return f"<ul>{''.join(lines)}</ul>"


def _drift(drifts: Sequence[Drift]) -> str:
    if not drifts:
        return ""
    rows = "".join(f"<tr><th>{html.escape(d.words)}</th><td>{d.psi:.3f}</td></tr>" for d in drifts)
    head = "<tr><th>drift of train</th><th>PSI</th></tr>"
    return f'<table class="drift">{head}{rows}</table>'
