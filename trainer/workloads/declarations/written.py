"""Values as people write them in files and requests: blanks, true and false, money and percent."""

import re
from dataclasses import KW_ONLY, InitVar, dataclass
from functools import cached_property

SPELLINGS = {"True": "true", "TRUE": "true", "False": "false", "FALSE": "false"}
# The signs of decimals and between thousands, by an example of the digits.
DIGITS = {
    "1234.5": (".", ""),
    "1,234.5": (".", ","),
    "1234,5": (",", ""),
    "1.234,5": (",", "."),
    "1 234,5": (",", " "),
    "1 234.5": (".", " "),
    "1'234.5": (".", "'"),
    "1\N{RIGHT SINGLE QUOTATION MARK}234.5": (".", "\N{RIGHT SINGLE QUOTATION MARK}"),
    "12,34,567.5": (".", ","),
}
INDIAN = "12,34,567.5"
PLAIN = "1234.5"
SIGN = r"[^=]+(=\d+(\.\d+)?)?$"
# Signs of numbers below 0, and how these are written: (12.5), $(12.5) and 12.5- are below 0.
NEGATIVE = {
    "()": r"^([^0-9()]*)\((.*)\)$",
    "-": r"^()(.*[^-])-$",
    "\N{MINUS SIGN}": "^()\N{MINUS SIGN}(.*)$",
}
BELOW_ZERO = r"-\1\2"
NO_BREAK_SPACES = "[\u00a0\u2009\u202f]"


def plain_text(text: str) -> str:
    """Return a text without blanks around it; true and false in lower case."""
    trimmed = text.strip()
    return SPELLINGS.get(trimmed, trimmed)


@dataclass(frozen=True)
class Written:
    """The form of numbers in texts.

    Attributes:
        written: a number in this form: "1234.5", "1,234.5", "1234,5", "1.234,5", "1 234,5",
            "1 234.5", "1'234.5" or "12,34,567.5".
        signs: texts before or after a number that are left out, such as "$", "%" and "kg"; one
            after it may have a factor, as "K=1000". With "()" a number in brackets is negative,
            with "-" one before a minus.
        decimal, thousands: no more; `written` has both.
    """

    _: KW_ONLY
    written: str = PLAIN
    signs: tuple[str, ...] = ()
    decimal: InitVar[str] = ""
    thousands: InitVar[str] = ""

    def __post_init__(self, decimal: str, thousands: str) -> None:
        if decimal or thousands:
            forms = {signs: repr(form) for form, signs in DIGITS.items() if form != INDIAN}
            form = forms.get((decimal or ".", thousands), "one of " + ", ".join(forms.values()))
            raise ValueError(f"decimal and thousands are one argument now: written, here {form}")
        if self.written not in DIGITS:
            raise ValueError(f"written is {self.written!r}; it must be one of {', '.join(DIGITS)}")
        if isinstance(self.signs, str) or not all(re.match(SIGN, sign) for sign in self.signs):
            raise ValueError(
                f"signs is {self.signs!r}; it must be a tuple of texts, perhaps with factors, as"
                ' ("$", "K=1000")'
            )
        object.__setattr__(self, "signs", tuple(self.signs))

    @property
    def is_plain(self) -> bool:
        """True if numbers are written as in a program."""
        return (self.written, self.signs) == (PLAIN, ())

    @property
    def factors(self) -> dict[str, float]:
        """The factor of each sign, 1 if it has none."""
        parts = (sign.partition("=") for sign in self.signs)
        return {sign: float(factor or 1) for sign, _, factor in parts}

    @property
    def example(self) -> str:
        """An example of a text with the signs, for messages; "" if numbers have none."""
        if self.is_plain:
            return ""
        sign = next((text for text in self.factors if text not in NEGATIVE), "")
        return f", or a text such as {sign + self.written!r}"

    @cached_property
    def pattern(self) -> str:
        """A regular expression for RE2 and Python; its groups are minus, digits and last sign."""
        point, comma = map(re.escape, DIGITS[self.written])
        groups = "[0-9]?(?:,[0-9]{2})*,[0-9]{3}" if self.written == INDIAN else ""
        groups = groups or f"[0-9]{{0,2}}(?:{comma}[0-9]{{3}})+"
        whole = f"[1-9]{groups}|[0-9]+" if comma else "[0-9]+"
        digits = rf"(?:{whole})(?:{point}[0-9]*)?|{point}[0-9]+"
        signs = sorted(self.factors.keys() - NEGATIVE, key=len, reverse=True)
        sign = f"(?:{'|'.join(map(re.escape, signs))})?" if signs else ""
        return rf"^([+-]?) *{sign} *([+-]?(?:{digits})(?:[eE][+-]?[0-9]+)?) *({sign})$"

    def number_of(self, text: str) -> float | None:
        """Return the number of a text; None if it has another form."""
        plain = re.sub(NO_BREAK_SPACES, " ", text).strip()
        for sign in NEGATIVE.keys() & self.signs:
            plain = re.sub(NEGATIVE[sign], BELOW_ZERO, plain)
        match = re.match(self.pattern, plain)
        if match is None:
            return None
        minus, digits, sign = match.groups()
        point, comma = DIGITS[self.written]
        if comma:
            digits = digits.replace(comma, "")
        try:
            number = float(minus + digits.replace(point, "."))
        except ValueError:  # two signs
            return None
        return number * self.factors.get(sign, 1)


class NumberLimits:
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
