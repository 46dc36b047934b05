"""Tables that people have: names, values and kinds of text files."""

import csv
import json
import random
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.data.cases.case import HOSTILE, Case, Result, nothing_is_executed

NUM_ROWS = 120
AGES = [20 + 7 * row % 53 for row in range(NUM_ROWS)]
Y = ["yes" if row % 3 == 0 else "no" for row in range(NUM_ROWS)]


def columns(**more: Any) -> dict[str, list[Any]]:
    """Return columns of the table; a function makes the value of each row from its number."""
    return {
        name: [values(row) for row in range(NUM_ROWS)]
        if callable(values)
        else [values[row % len(values)] for row in range(NUM_ROWS)]
        for name, values in more.items()
    }


def write(path: Path, table: dict[str, list[Any]], **how: Any) -> None:
    """Write columns as a CSV file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, **how)
        writer.writerows([table, *zip(*table.values(), strict=True)])


def csv_of(table: dict[str, list[Any]], **how: Any) -> Callable[[Path], None]:
    """Return a function that writes columns to a.csv."""
    return lambda folder: write(folder / "a.csv", table, **how)


def lines_of(*lines: str) -> Callable[[Path], None]:
    """Return a function that writes lines to a.csv."""

    def write_lines(folder: Path) -> None:
        (folder / "a.csv").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")

    return write_lines


def _joined(folder: Path) -> None:
    write(folder / "a.csv", columns(age=AGES, y=Y))
    (folder / "a.csv").write_text((folder / "a.csv").read_text() * 3)


def _two_files(folder: Path) -> None:
    for name, end in (("train", ""), ("test", ".")):
        incomes = [f" >50K{end}", f" <=50K{end}", f" <=50K{end}"]
        write(folder / "two" / f"{name}.csv", columns(age=AGES, income=incomes))


def _zipped(folder: Path) -> None:
    with zipfile.ZipFile(folder / "a.csv.zip", "w") as archive:
        archive.writestr("money.csv", "a,b\n1,2\n")


def _json(folder: Path) -> None:
    rows = [{"age": age, "y": y} for age, y in zip(AGES, Y, strict=True)]
    write(folder / "a.csv", columns(age=AGES, y=Y))
    (folder / "a.json").write_text(json.dumps(rows))


def _has_all(result: Result, name: str) -> bool:
    """Return whether the splits have about 80, 10 and 10 per cent, each value in every one."""
    return 0.7 < result.counts[0] / sum(result.counts) < 0.9 and None not in result.values(name)


DICE = random.Random(3)
TAGS = ["|".join(DICE.sample(["red", "big", "old", "new", "hot", "wet"], 3)) for _ in range(600)]
A = "--table a.csv --label y"
PLANS = ["basic", "gold", "?"] * 40
KEYWORDS = ["class", "from", "self", "key"]
HARD = ["x/y", "x.y", "Age", "age", "Sepal.Length", "%", "年龄", "доход"]
HEADERLESS = [
    f"{5 + row % 17 / 10},{row % 7},{'setosa' if row % 2 else 'rose'}" for row in range(90)
]
CASES = {
    "missing_labels": Case(
        csv_of(columns(age=AGES, y=lambda row: "" if row % 20 == 0 else "ab"[row % 2])),
        A,
        checked="0 quarantined, 6 without a label",
        facts=lambda result: result.rows["unlabelled"] == 6,
    ),
    "empty_multilabels": Case(
        csv_of(columns(age=AGES, tags=["", "a|b", "b", "c|a"])),
        "--table a.csv --label tags",
        declares=("Multilabel(",),
        facts=lambda result: result.rows["written"] == NUM_ROWS,
    ),
    "hard names": Case(  # class, from, self, key, and those that collide
        csv_of(columns(**dict.fromkeys(KEYWORDS, "ab"), **dict.fromkeys(HARD, AGES), 流失=Y)),
        "--table a.csv --label 流失",
        facts=lambda result: len(result.workload.used) == len([*KEYWORDS, *HARD]),
    ),
    "hostile_names": Case(
        csv_of(columns(**{f"{HOSTILE}\nx\\": AGES, "{0}%s#": [HOSTILE, "b\\"], HOSTILE: Y})),
        f"--table a.csv --label {HOSTILE}",
        facts=lambda result: nothing_is_executed() and result.rows["written"] == NUM_ROWS,
    ),
    "row_numbers": Case(
        csv_of(columns(rownames=range(1, 121), PassengerId=range(7, 127), age=AGES, y=Y)),
        A,
        says=("rownames: the key, which is no feature", "PassengerId: left out"),
        facts=lambda result: [one.name for one in result.workload.used] == ["age"],
    ),
    "labels_with_blanks": Case(
        csv_of(columns(age=AGES, y=["yes", "yes ", "no", " no"])),
        A,
        says=("blanks around values",),
        facts=lambda result: result.values("y") == {0, 1},
    ),
    "two_files": Case(
        _two_files,
        "--table two/train.csv two/test.csv --label income",
        says=(
            "no file that trains has '<=50K.', '>50K.'; write its values as they are in two/train",
        ),
        refused=True,
    ),
    "a second file with other labels": Case(
        _two_files, "--table two/train.csv --label income", declares=('positive=">50K"',)
    ),
    "no_header, given": Case(
        lines_of(*HEADERLESS),
        f"{A} --header a,b,y",
        facts=lambda result: result.rows["read"] == 90,
    ),
    "comma_in_header": Case(
        csv_of(columns(**{"income, yearly": AGES, "age": AGES, "y": Y}), delimiter=";"),
        A,
        facts=lambda result: len(result.workload.used) == 2,
    ),
    "german_excel": Case(
        csv_of(
            columns(
                datum=lambda row: f"{1 + row % 28:02}.02.2026",
                temperatur=["-3,25", "29", "", "12,5"],
                umsatz=["1.018,73", "999,5", "12.000,00"],
                anteil=["6%", "61%", "7%"],
                y=["ja", "nein", "nein"],
            ),
            delimiter=";",
        ),
        A,
        says=(r"umsatz: .*1\.018,73' is read as 1018\.73", "anteil: '6%' is read as 6"),
        declares=('Timestamp("datum", format="%d.%m.%Y"', 'positive="ja"'),
        facts=lambda result: result.values("temperatur") == {-3.25, 29, None, 12.5},
    ),
    "zipped": Case(
        _zipped, "--table a.csv.zip --label b", says=("zip archive of money.csv",), refused=True
    ),
    "rare_positives": Case(
        csv_of(columns(amount=AGES, y=lambda row: "yes" if row in (9, 50) else "no")),
        A,
        checked="the test split has no 'yes'; 5 folds of all 120 rows judge the model",
    ),
    "tags_without_key": Case(
        csv_of({"tags": TAGS, "town": ["Ulm", "Bonn", "Kiel"] * 200, "y": ["up", "down"] * 300}),
        A,
        facts=lambda result: _has_all(result, "town") and len(result.values("town")) == 3,
    ),
    "joined_files": Case(
        _joined,
        A,
        says=("2 rows repeat the header",),
        checked="2 that repeat the header",
        facts=lambda result: result.rows["repeated_headers"] == 2 and result.values("y") == {0, 1},
    ),
    "blanks_after_commas": Case(
        lines_of("age, plan, left", *map(", ".join, zip(map(str, AGES), PLANS, Y, strict=True))),
        "--table a.csv --label left",
        says=(r"'\?' is read as missing",),
        facts=lambda result: (
            result.values("plan") == {b"basic", b"gold", None}
            and all(
                result.workload.parse_instance({"age": 5, "plan": plan})["plan"] == b"gold"
                for plan in ("gold", " gold")
            )
        ),
    ),
    "plain": Case(_json, A),
    "array": Case(_json, "--table a.json --label y", same_as="plain"),
}
