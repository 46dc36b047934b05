"""Values as people write them in files and requests: blanks, true and false, money and percent."""

import re
from dataclasses import KW_ONLY, dataclass

SPELLINGS = {"True": "true", "TRUE": "true", "False": "false", "FALSE": "false"}
THOUSANDS = ("", ".", ",", " ", "'")
# Signs of numbers below 0, and how these are written: (12.5) and 12.5- are -12.5.
NEGATIVE = {"()": r"^\((.*)\)$", "-": r"^(.*[^-])-$"}
NO_BREAK_SPACES = "[\u00a0\u2009\u202f]"


def plain_text(text: str) -> str:
    """Return a text without blanks around it; true and false in lower case."""
    trimmed = text.strip()
    return SPELLINGS.get(trimmed, trimmed)


@dataclass(frozen=True)
class Written:
    """The form of numbers in texts.

    Attributes:
        decimal: the decimal sign, a point or a comma.
        thousands: what separates thousands, such as "," in 1,234,567; "" for nothing.
        signs: texts before or after a number that are left out, such as "$", "%" and "kg"; with
            "()" a number in brackets is negative, with "-" one before a minus.
    """

    _: KW_ONLY
    decimal: str = "."
    thousands: str = ""
    signs: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.decimal not in (".", ",") or self.thousands not in THOUSANDS:
            raise ValueError(
                f"decimal is {self.decimal!r} and thousands {self.thousands!r}; decimal must be '.'"
                f" or ',', thousands one of {', '.join(map(repr, THOUSANDS))}"
            )
        if self.decimal == self.thousands:
            raise ValueError(f"decimal and thousands are both {self.decimal!r}; change one")
        if isinstance(self.signs, str) or not all(self.signs):
            raise ValueError(f'signs is {self.signs!r}; it must be a tuple of texts, as ("$", "%")')
        object.__setattr__(self, "signs", tuple(self.signs))

    @property
    def is_plain(self) -> bool:
        """True if numbers are written as in a program."""
        return (self.decimal, self.thousands, self.signs) == (".", "", ())

    @property
    def example(self) -> str:
        """An example of a text with the signs, for messages; "" if numbers have none."""
        if self.is_plain:
            return ""
        sign = next((text for text in self.signs if text not in NEGATIVE), "")
        return f", or a text such as {f'{sign}1{self.thousands}234{self.decimal}5'!r}"

    @property
    def pattern(self) -> str:
        """A regular expression for RE2 and Python; its groups are the minus and the digits."""
        point, comma = re.escape(self.decimal), re.escape(self.thousands)
        whole = f"[0-9]{{1,3}}(?:{comma}[0-9]{{3}})+|[0-9]+" if comma else "[0-9]+"
        digits = rf"(?:{whole})(?:{point}[0-9]*)?|{point}[0-9]+"
        around = "|".join(re.escape(sign) for sign in self.signs if sign not in NEGATIVE)
        sign = f"(?:{around})?" if around else ""
        return rf"^([+-]?) *{sign} *([+-]?(?:{digits})(?:[eE][+-]?[0-9]+)?) *{sign}$"

    def number_of(self, text: str) -> float | None:
        """Return the number of a text; None if it has another form."""
        plain = re.sub(NO_BREAK_SPACES, " ", text).strip()
        for sign in NEGATIVE.keys() & self.signs:
            plain = re.sub(NEGATIVE[sign], r"-\1", plain)
        match = re.match(self.pattern, plain)
        if match is None:
            return None
        digits = "".join(match.groups())
        if self.thousands:
            digits = digits.replace(self.thousands, "")
        try:
            return float(digits.replace(self.decimal, "."))
        except ValueError:  # two signs
            return None


class Limits:
    """Limits of numbers, in words."""

    low: float | None
    high: float | None
    unit: str = ""

    @property
    def has_limits(self) -> bool:
        """True if not every value is possible."""
        return self.low is not None or self.high is not None

    @property
    def allowed(self) -> str:
        """The limits as text."""
        if self.high is None:
            limits = f"at least {self.low:,}"
        elif self.low is None:
            limits = f"at most {self.high:,}"
        else:
            limits = f"{self.low:,} to {self.high:,}"
        return f"{limits} {self.unit}".strip()
