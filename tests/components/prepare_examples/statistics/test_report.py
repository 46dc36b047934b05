import datetime
import html
import json
import re

import numpy as np
import pyarrow as pa
import pytest

from components.prepare_examples.statistics.drift import measure_drift
from components.prepare_examples.statistics.report import data_page
from components.prepare_examples.statistics.schema import Anomaly
from components.prepare_examples.statistics.states import new_statistic
from components.shared.text.value_text import percent_text
from tests.support.looks import MIN_FONT_PIXELS, SECURITY, dumped, measured
from vertex_local.tests.support.browser import CHROMIUM

HOSTILE = '<script>document.title="x"</script>"&\'' * 3
START = int(datetime.datetime(2013, 1, 6, tzinfo=datetime.UTC).timestamp())
needs_chromium = pytest.mark.skipif(not CHROMIUM, reason="Chromium is not installed")


def summary(values, kind, **options):
    statistic = new_statistic(kind, **options)
    statistic.add(pa.array(values))
    return statistic.summary()


def features(count, *, paid=("Cash", "Credit Card"), years=4):
    """Return features of every kind that `count` trips have."""
    chance = np.random.default_rng(count)
    payments = [paid[number % len(paid)] for number in range(count)]
    return {
        "fare": summary([None, *chance.lognormal(2, 1, count - 1)], "float"),
        "payment": summary(payments, "text"),
        "start": summary(
            START + chance.integers(0, years * 365 * 86400, count), "int", is_time=True
        ),
        "tract": summary([17_031_081_401 + number % 60 for number in range(count)], "int"),
        "day": summary(chance.integers(1, 8, count), "int"),
        "tags": summary([["a", "b"], [], ["a"]] * (count // 3), "text", is_list=True),
        "remark": summary(["a very good day", None] * (count // 2), "words"),
        "sizes": summary([[0.5, 1.5, 2.5]] * count, "float", is_list=True),
        "never": summary(pa.nulls(count, pa.float64()), "float"),
        HOSTILE: summary([HOSTILE, "", "\u202eabc"] * (count // 3), "text"),
    }


def page_of(splits=None, *, has_champion=True, **options):
    splits = splits or {"train": features(600), "eval": features(90), "test": features(60)}
    earlier = {"champion": features(300, paid=("Cash",))} if has_champion else {}
    parts, before = (
        {name: {"num_examples": 600, "features": columns} for name, columns in some.items()}
        for some in (splits, earlier)
    )
    manifest = {"workload": "taxi", **options.pop("manifest", {})}
    return data_page(manifest, {"splits": parts}, rule="Split by key", earlier=before, **options)


def part_of(page, name):
    """Return the HTML of a feature."""
    [part] = [part for part in page.split("<article ")[1:] if f"<span>{name}</span>" in part]
    return part


def test_all_sets_of_data_are_in_one_drawing():
    part = part_of(page_of(), "fare")
    linear, log = part.split('<div class="log">')
    assert [linear.count(f'"steps s{style}"') for style in range(5)] == [1, 1, 1, 1, 0]
    assert ">0 %<" in linear
    assert ">0.01 %<" in log


def test_a_value_has_the_share_of_each_set_as_a_bar_on_a_scale_from_zero():
    part = part_of(page_of(), "payment")
    assert "<i class=linear>0</i>" in part
    assert "</i> to 100 %" in part
    assert 'Credit Card<td class=shares style="--a:0.5;--b:0.5;--c:0.5">' in part
    assert re.search(r"Credit Card<td [^>]*><td>50.0 %<td>50.0 %<td>50.0 %<td>0 %", part)


def test_missing_is_a_share():
    part = part_of(page_of(), "fare")
    assert "missing<td>0.2 %<td>1.11 %<td>1.67 %<td>0.3 %" in part


def test_only_all_is_a_hundred_percent():
    assert [percent_text(share) for share in (0.0, 0.0003, 0.343, 0.99994, 1.0)] == [
        *("0 %", "0.03 %", "34.3 %", ">99.9 %", "100 %")
    ]


def test_numbers_have_quantiles_and_are_written_as_people_write_them():
    page = page_of()
    fare = part_of(page, "fare")
    assert re.findall(r"<th colspan=2>([\w %]+)<td>", fare)[2:9] == [
        *("least", "1 %", "25 %", "median", "75 %", "99 %", "most")
    ]
    tract = part_of(page, "tract")
    assert "least<td>17,031,081,401" in tract
    assert not re.search(r"\de\+?-?\d", re.sub(r"#\w+|<article[^>]*>", "", page.split("<main>")[1]))


@pytest.mark.parametrize(
    ("years", "tick"), [(4, r">201[3-6]-\d\d-\d\d<"), (0.005, r">01-0[67] \d\d:\d\d<")]
)
def test_times_are_dates(years, tick):
    train = {"start": features(600, years=years)["start"]}
    part = part_of(page_of({"train": train}, has_champion=False), "start")
    assert re.search(r"least<td><span>2013-01-[01]", part)
    assert re.search(tick, part.split("<table>")[0])


def test_psi_of_the_champion_is_that_of_the_drift_and_has_words_if_it_counts():
    splits = {"train": features(600)}
    part = part_of(page_of(splits), "payment")
    before = {"splits": {"train": {"features": features(300, paid=("Cash",))}}}
    now = {"splits": {"train": {"features": splits["train"]}}}
    [drift] = [d for d in measure_drift(now, before) if d.feature == "payment"]
    assert f"PSI<td><td>{drift.psi:.3f}" in part
    assert "<p>Since champion: Credit Card: 0 → 50 %</p>" in part
    assert "Since" not in part_of(page_of(splits), "day")


def test_a_feature_of_another_type_in_the_champions_data_is_not_compared():
    splits = {"train": {"payment": summary([1, 2, 3] * 20, "int")}}
    part = part_of(page_of(splits), "payment")
    assert "champion: text" in part
    assert "PSI" not in part


def test_remarks_are_listed_once_and_lead_to_their_feature():
    anomalies = [Anomaly("warning", "eval", "payment", f"has <b> {n}") for n in range(25)]
    page = page_of(anomalies=anomalies)
    assert page.count("has &lt;b&gt; 7") == 1
    assert "5 more remarks" in page
    [place] = set(re.findall(r'<a href="#(feature-\d+)">payment', page))
    assert f'<article id="{place}" data-remarks=25' in page


def test_hostile_names_and_values_are_text_and_no_network_is_needed():
    page = page_of()
    assert not re.search("https?:", page)
    assert page.count("<script") == 1
    assert "&lt;script&gt;document.title" in page


def test_classes_of_images_have_their_names_and_channels_their_pixels():
    train = {"label": summary([0, 1, 1, 2], "int")}
    names = {"manifest": {"labels": ["cat", "dog", "fish"]}}
    page = page_of({"train": train}, has_champion=False, **names)
    assert re.search(r"dog<td [^>]*><td>50.0 %", page)
    pixels = {"mean": [12.5, 100.25, 7.0], "std": [1.0, 2.0, 3.0]}
    part = {"num_examples": 4, "features": train, "pixels": pixels}
    manifest = {"workload": "x", "label": "y: 1 if it is 'yes', else 0"}
    page = data_page(manifest, {"splits": {"train": part}}, rule="r")
    assert "r · label y: 1 if it is &#39;yes&#39;, else 0" in page
    assert "100.2 ± 2.000" in page or "100.2 ± 2" in page


def test_the_page_of_many_columns_is_bounded():
    columns = features(300)
    train = {f"{name}-{n}": columns[name] for n in range(200) for name in ("fare", "day", "tags")}
    page = page_of({"train": train, "eval": train, "test": train}, has_champion=False)
    assert page.count("<article ") == 600
    assert len(page) < 2_400_000


@needs_chromium
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_everything_is_in_sight_at_both_widths_and_has_contrast(tmp_path, scheme):
    for one in measured(page_of(), tmp_path, scheme):
        assert one["scroll"] <= one["width"], one["wide"]
        assert one["wide"] == []
        assert one["cut"] == []
        assert one["pale"] == []
        assert one["least"] >= MIN_FONT_PIXELS


# Uses the controls, and writes what is in sight.
USE = """<script>
const use = (id, value) => {
  const control = document.getElementById(id);
  if (id === "log") control.checked = value; else control.value = value;
  control.dispatchEvent(new Event("input"));
  return [...document.querySelectorAll("article")].filter((one) => !one.hidden)
    .map((one) => one.querySelector("h3 span").textContent.slice(0, 9));
};
const seen = (css) => document.querySelector(css).getClientRects().length > 0;
const done = {psi: use("order", "psi"), missing: use("order", "missing"),
  name: use("order", "name"), data: use("order", ""), search: use("search", "TA")};
done.shown = shown.textContent;
use("search", "");
const before = [seen("div.linear"), seen("div.log")];
use("log", true);
done.log = [...before, seen("div.linear"), seen("div.log")];
document.title = JSON.stringify(done);
</script>"""


@needs_chromium
def test_features_are_searched_and_ordered_and_drawn_on_a_log_scale(tmp_path):
    page = SECURITY.sub("", page_of()).replace("</body>", f"{USE}</body>")
    done = json.loads(html.unescape(re.search("<title>(.*?)</title>", dumped(page, tmp_path))[1]))

    assert done["data"][:3] == ["payment", "fare", "start"]  # the first one drifts
    assert done["psi"][0] == "payment"
    assert done["missing"][:2] == ["never", "remark"]
    assert done["name"][1:3] == ["day", "fare"]
    assert done["search"] == ["start", "tags"]
    assert done["shown"] == "2 of 10 features"
    assert done["log"] == [True, False, False, True]


@needs_chromium
def test_the_page_runs_its_own_script_alone(tmp_path):
    page = page_of().replace("</main>", '<script>document.title = "foreign"</script></main>')
    drawn = dumped(page, tmp_path)
    assert "10 of 10 features" in drawn
    assert "<title>foreign" not in drawn


@needs_chromium
def test_without_its_script_everything_is_in_sight(tmp_path):
    page = re.sub(r"; script-src '[^']*'", "", page_of())
    drawn = dumped(page, tmp_path)
    assert '<span hidden="">' in drawn
    assert "<article" in drawn
    assert 'hidden=""' not in drawn.split('class="features"')[1]
