"""Numbers and times as people write them: each column has the values of a plain one."""

import datetime
import random
from typing import Any

import numpy as np

from tests.support.data.cases.case import Case, Result
from tests.support.data.cases.tables import Y, columns, csv_of

DICE = random.Random(6)
FIRST = datetime.datetime(2016, 1, 27, 8, 44)
GERMAN = "Januar Februar März April Mai Juni Juli August September Oktober November Dezember"
FRENCH = "janv. févr. mars avr. mai juin juil. août sept. oct. nov. déc."
SPANISH = "ene feb mar abr may jun jul ago sep oct nov dic"
PEOPLE = [DICE.choice([DICE.randint(100, 998), DICE.randint(1_000, 98_000)]) for _ in Y]
NUMBERS = {
    "points": lambda n: f"{n:,}".replace(",", "."),
    "commas": lambda n: f"{n:,}",
    "euro": lambda n: f"{n:,} €".replace(",", "."),
    "reais": lambda n: f"R$ {n:,},00".replace(",", ".", f"{n:,}".count(",")),
    "rubles": lambda n: f"{n},00 руб.",  # noqa: RUF001
    "lakhs": lambda n: f"{n // 1000},{n % 1000:03}" if n > 999 else f"1,00,{n}",
    "brackets": lambda n: f"$({n:,})",
    "mega": lambda n: f"{n / 1000:.4f}K" if n > 999 else str(n),
    "plus": lambda n: f"{n:,}+",
    "units": lambda n: f"{n} {'km/kg' if n % 9 == 0 else 'kmpl'}",
    "shares": lambda n: f"{n / 1000:.3f}" if n < 999 else f"{n / 10:.1f}%",
    "power": lambda n: f"{n} bhp" if n % 9 else "bhp",
    "flags": lambda n: str(n) if n % 9 else "FALSE",
}
DATES = {
    "excel": "%d-%b-%y",
    "capitals": "%d-%b-%y",
    "slashes": "%Y/%m/%d %H:%M",
    "offsets": "%Y/%m/%d %H:%M:%S+00",
    "dotted": "%Y.%m.%d",
    "japanese": "%Y年%m月%d日",
    "matlab": "%d-%b-%Y %H:%M:%S",
    "english": "%d %B %Y",
    "mail": "%a, %d %b %Y %H:%M:%S GMT",
    "log": "%d/%b/%Y:%H:%M:%S +0000",
    "american": "%m/%d/%Y %I:%M%p",
    "hours": "%d/%m/%Y %Hh%M",
    "month": "%Y%m",
    "german": f"%d. {GERMAN} %Y",
    "french": f"%d {FRENCH} %Y",
    "spanish": f"%d de {SPANISH} de %Y",
    "born": "%m/%d/%y",
}


def _moment(name: str, row: int) -> datetime.datetime:
    days = -250 * row if name == "born" else 5 * row
    return FIRST + datetime.timedelta(days=days, hours=row % 11)


def _date(name: str, row: int) -> str:
    moment, form = _moment(name, row), DATES[name]
    for words in (GERMAN, FRENCH, SPANISH):
        form = form.replace(words, words.split()[moment.month - 1])
    text = moment.strftime(form)
    return text.upper() if name == "capitals" else text


def _instant(name: str, row: int) -> int:
    moment = _moment(name, row).replace(tzinfo=datetime.UTC)
    if "%H" not in DATES[name] and "%I" not in DATES[name]:
        moment = moment.replace(hour=0, minute=0)
    return int(moment.replace(day=1 if name == "month" else moment.day).timestamp())


def _numbers_are_right(result: Result) -> bool:
    scales: dict[str, Any] = {"shares": 0.001, "power": lambda n: n if n % 9 else None}
    scales["flags"] = scales["power"]
    scales |= {"brackets": -1, "lakhs": lambda n: n if n > 999 else 100_000 + n}
    for name in NUMBERS:
        scale = scales.get(name, 1)
        right = {scale(n) if callable(scale) else float(np.float32(n * scale)) for n in PEOPLE}
        values = result.values(name)
        assert {n and round(n, 3) for n in values} == {n and round(n, 3) for n in right}, name
    return True


def _dates_are_right(result: Result) -> bool:
    for name in DATES:
        assert result.values(name) == {_instant(name, row) for row in range(len(Y))}, name
    return True


CASES = {
    "numbers": Case(
        csv_of(
            columns(y=Y, **{name: [*map(write, PEOPLE)] for name, write in NUMBERS.items()}),
            delimiter=";",
        ),
        "--table a.csv --label y",
        says=(
            "whatever the unit, kmpl or km/kg",
            "power: 'bhp' is read as missing",
            "points: .* is read as",
        ),
        declares=('signs=("K=1000",)', 'signs=("%=0.01",)'),
        facts=_numbers_are_right,
    ),
    "dates": Case(
        csv_of(columns(y=Y, **{name: lambda row, name=name: _date(name, row) for name in DATES})),
        "--table a.csv --label y",
        declares=('Timestamp("born", format="%m/%d/%y", last_year=',),
        facts=_dates_are_right,
    ),
    "either": Case(
        csv_of(columns(y=Y, x=lambda row: f"{row % 9 + 1}.{row % 800 + 100}"), delimiter=";"),
        "--table a.csv --label y",
        says=(r"1\.1 \(--written x=1234\.5\) or 1100 \(--written x=1\.234,5\)",),
        refused=True,
    ),
}
