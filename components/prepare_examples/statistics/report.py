"""The page of a dataset: each feature in all splits, and in earlier data, in one drawing."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from markupsafe import Markup

from components.prepare_examples.statistics.drift import (
    MARKED,
    NOTICEABLE,
    Drift,
    drift_of,
    has_all_values,
    shares_of,
    written,
)
from components.prepare_examples.statistics.histograms import NUM_DECADES, histogram
from components.prepare_examples.statistics.schema import Anomaly
from components.shared.pages.charts.axis import round_axis
from components.shared.pages.formats import percent
from components.shared.pages.page import fill, render
from components.shared.text.value_text import cut, number_text, percent_text, time_text
from trainer import Json

FILE = "report.html"
NUM_VALUES, NUM_DIGITS = 10, 4
TYPES = {"FLOAT": "number", "INT": "whole number", "STRING": "text"}
QUANTILES = {"least": 0, "1 %": 1, "25 %": 25, "median": 50, "75 %": 75, "99 %": 99, "most": 100}

Summaries = Sequence[Json | None]  # a FEATURE of statistics.json by set of data, train first
Shares = Sequence[float | None]


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
    data = statistics["splits"] | earlier
    labels = manifest.get("labels", ())
    names = dict.fromkeys(name for part in data.values() for name in part["features"])
    places = {name: f"feature-{place}" for place, name in enumerate(names)}
    remarks = Counter(anomaly.feature for anomaly in anomalies)
    cards = [
        _card(
            name,
            [part["features"].get(name) for part in data.values()],
            sets={of: of in earlier for of in data},
            place=places[name],
            num_remarks=remarks[name],
            labels=labels if name == "label" else (),
        )
        for name in names
    ]
    cards.sort(key=lambda card: -card["drift"])
    num_drifting = sum(card["drift"] > 0 for card in cards)
    told = [(str(num_drifting), "features", f"drift since {' and '.join(earlier)}")]
    here = Path(__file__)
    body = render(
        "prepare_examples/statistics/report.html",
        counts=[
            *((f"{part['num_examples']:,}", name, "examples") for name, part in data.items()),
            *(told if earlier else ()),
        ],
        anomalies=anomalies,
        places=places,
        pixels={name: part["pixels"] for name, part in data.items() if "pixels" in part},
        cards=cards,
        sets=list(data),
        num_drifting=num_drifting,
        noticeable=f"{NOTICEABLE:g}",
        marked=MARKED,
    )
    return fill(
        f"Data of {manifest['workload']}",
        body,
        about=f"{rule} · label {manifest['label']}" if "label" in manifest else rule,
        style=here.with_suffix(".css").read_text(encoding="utf-8"),
        script=here.with_suffix(".js").read_text(encoding="utf-8"),
    )


def _card(
    name: str,
    summaries: Summaries,
    *,
    sets: Mapping[str, bool],
    place: str,
    num_remarks: int,
    labels: Sequence[str] = (),
) -> Json:
    """Return what the part of a feature shows: its drawing and its figures in all sets of data.

    Args:
        name: of the feature.
        summaries: the feature in each set of data.
        sets: the sets of data by name; True for earlier data, of which the changes are told.
        place: id of the part in the page.
        num_remarks: number of anomalies.
        labels: names of the values, which are the places in it.
    """
    first = next(filter(None, summaries))
    is_time = {"is_time": first.get("is_time", False)}  # which earlier data may not say
    alike = [s | is_time if s and s["type"] == first["type"] else None for s in summaries]
    drifts = [None, *_drifts(name, alike, are_earlier=[*sets.values()])]
    is_listed = first["type"] == "STRING" or all(
        s["num_unique"] <= NUM_VALUES and has_all_values(s) for s in alike if s
    )
    missing = _each(alike, _missing)
    since = {
        of: drift
        for (of, is_earlier), drift in zip(sets.items(), drifts, strict=True)
        if is_earlier and drift and not drift.psi <= NOTICEABLE
    }
    return {
        "name": cut(name),
        "place": place,
        "kind": _kind(summaries, sets),
        "marks": {
            "remarks": num_remarks,
            "missing": max(share or 0 for share in missing),
            "distinct": first["num_unique"],
            "psi": max(drift.psi if drift else 0 for drift in drifts),
        },
        "drift": max((drift.psi for drift in since.values()), default=0),
        "changes": [(of, drift.words.removeprefix(f"{name}: ")) for of, drift in since.items()],
        "drawing": "" if is_listed else histogram(alike, text=f"{name} by set of data"),
        "bars": _bars({"missing": missing, **_values(alike, labels)}) if is_listed else {},
        "figures": _figures(alike, drifts, is_listed=is_listed),
    }


def _kind(summaries: Summaries, sets: Iterable[str]) -> str:
    """Return the type of a feature, with those that other sets of data have."""
    types = [_type(summary) if summary else "" for summary in summaries]
    kind = next(filter(None, types))
    differing = [f"{of}: {t}" for of, t in zip(sets, types, strict=True) if t and t != kind]
    return ", ".join([kind, *differing])


def _type(summary: Json) -> str:
    kind: str = "time" if summary.get("is_time") else TYPES[summary["type"]]
    return f"lists of {kind}s" if summary.get("is_list") else kind


def _each(summaries: Summaries, measured: Callable[[Json], float]) -> Shares:
    return [measured(summary) if summary else None for summary in summaries]


def _missing(summary: Json) -> float:
    return _share(summary["num_missing"], summary["num_missing"] + summary["num_present"])


def _share(part: int, total: int) -> float:
    return part / total if total else 0.0


def _num_values(summary: Json) -> int:
    return int(summary["num_values" if summary.get("is_list") else "num_present"])


def _drifts(name: str, summaries: Summaries, *, are_earlier: Sequence[bool]) -> list[Drift | None]:
    """Return the drift of other splits from train, and of train from earlier data."""
    train, *rest = summaries
    pairs = [
        (other, train) if is_earlier else (train, other)
        for other, is_earlier in zip(rest, are_earlier[1:], strict=True)
    ]
    return [
        drift_of(name, shares_of(before, after)) if before and after else None
        for before, after in pairs
    ]


def _values(summaries: Summaries, labels: Sequence[str]) -> dict[str, Shares]:
    counts = [dict(map(tuple, s["top_values"])) if s else {} for s in summaries]
    frequent = {value for of in counts for value in [*of][:NUM_VALUES]}
    shares = {
        value: [
            _share(of.get(value, 0), _num_values(s)) if s else None
            for s, of in zip(summaries, counts, strict=True)
        ]
        for value in frequent
    }
    ranked = sorted(
        shares, key=lambda value: (-max(share or 0 for share in shares[value]), str(value))
    )[:NUM_VALUES]
    if not any(isinstance(value, str) for value in ranked):
        ranked.sort()
    return {_value_text(value, labels): shares[value] for value in ranked}


def _value_text(value: str | int | float, labels: Sequence[str]) -> str:
    if isinstance(value, str):
        return cut(value)
    return labels[int(value)] if value in range(len(labels)) else written(value)


def _date(seconds: float) -> str:
    return Markup("<span>{}</span>").format(
        Markup("</span> <span>").join(time_text(seconds).split(" "))
    )


def _bars(rows: Mapping[str, Shares]) -> Json:
    """Return the rows of a table of shares; all bars have one scale, from zero."""
    most = max(share or 0 for shares in rows.values() for share in shares)
    scale = round_axis([min(most, 1) or 1], title="", has_zero=True).high
    return {
        "top": percent_text(scale),
        "least": percent_text(scale / 10**NUM_DECADES),
        "rows": [
            (name, _lengths(shares, scale), ["" if s is None else percent(s) for s in shares])
            for name, shares in rows.items()
        ],
    }


def _lengths(shares: Shares, scale: float) -> str:
    return ";".join(
        f"--{bar}:{share / scale:.3g}" for bar, share in zip("abcd", shares, strict=False) if share
    )


def _figures(
    summaries: Summaries, drifts: Sequence[Drift | None], *, is_listed: bool
) -> list[tuple[str, list[str]]]:
    """Return rows of a table: numbers of a feature in each set of data."""
    figures = [_facts(s, is_listed=is_listed) if s else {} for s in summaries]
    for facts, drift in zip(figures, drifts, strict=True):
        if drift:
            facts["PSI"] = f"{drift.psi:.3f}"
    names = dict.fromkeys(name for facts in figures for name in facts)
    return [(name, [facts.get(name, "") for facts in figures]) for name in names]


def _facts(summary: Json, *, is_listed: bool) -> dict[str, str]:
    """Return figures of a feature in one set of data; what the bars say is left out."""
    what = "tokens" if "tokens" in summary else "distinct"
    facts = {} if is_listed else {"missing": percent_text(_missing(summary))}
    facts[what] = f"{summary['num_unique']:,}{'' if summary['is_exact'] else '+'}"
    if summary.get("is_list"):
        facts["values"] = f"{summary['num_values']:,}"
    if is_listed or not summary["quantiles"]:
        return facts
    shown = _date if summary.get("is_time") else written
    facts |= {name: shown(summary["quantiles"][at]) for name, at in QUANTILES.items()}
    if summary.get("is_time"):
        return facts
    for name in ("mean", "std"):
        digits = max(len(str(int(abs(summary[name])))), NUM_DIGITS)
        facts[name] = number_text(summary[name], digits=digits)
    facts["zero"] = percent_text(_share(summary["num_zeros"], _num_values(summary)))
    value, count = (summary["top_values"] or [(None, 1)])[0]
    if count > 1:
        share = percent_text(_share(count, _num_values(summary)))
        facts |= {"most frequent": written(value), "its share": share}
    return facts
