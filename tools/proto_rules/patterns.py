"""Rules that patterns read from the sentences of comments."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from google.protobuf.descriptor import FieldDescriptor

from tools.proto_rules.comments import Sentence, descriptor_of

# Words without which a sentence demands nothing that a request could lack.
DEMAND = re.compile(
    r"\b(must|formats?|form|at most|up to \d+|maximum|minimum|less than|greater|no (more|longer)"
    r" than|not (contain|supported)|cannot|can't|(can|may) only|only (be|one|specify)|exactly one"
    r"|mutually exclusive|valid|supported|between|range|required|increasing|has to|should|limit"
    r"|at least|one of|unique|acceptable|possible values|accepted|applicable|populate only"
    r"|needs? to|leave|project number|email address|percentage)\b"
    r"|^(the )?((maximum|minimum|minimal|desired|total|required|worker) )*number of\b",
    re.IGNORECASE,
)
TEXT = FieldDescriptor.TYPE_STRING
COUNT = (
    r"^(?:The )?(?:(?:maximum|minimum|minimal|desired|total|required|worker) )*[Nn]umber of "
    r"(?!the port)"
)
ANY_COUNT: list[float | None] = [0, None]
AT_LEAST_0 = " It must be at least 0."
RANGE = (
    r"(?:in (?:the )?range|range of its value is|between) ?[\[(]?([\d.]+)(?: to |, ?| and )([\d.]+)"
)
CHOICES = re.compile(
    r"(?:Valid|Acceptable) values(?: are)?:? (.*)|Supported metrics: (.*)"
    r"|(\S+) is the only supported value"
)
QUOTED = re.compile(r"``([^`]+)``|\"([^\" ]+)\"")
UNIQUE = re.compile(r"must be unique amongst all (\w+)s\b")
UNITS = {"hours": 3600, "minutes": 60, "seconds": 1}


@dataclass(frozen=True)
class Rule:
    """Rule for a field; `vertex_local/api/comments.py` reads `kind` and `limit`."""

    message: str
    field: str
    kind: str
    limit: Any
    sentence: str


def resource_name(template: str) -> str:
    """Return the pattern of `projects/{project}/networks/{network}`, or with `my-project`."""
    parts = re.split(r"\{[^}]+\}|(?<=/)my-\w+", template)
    return "[^/]+".join(re.escape(part).replace(r"\-", "-") for part in parts)


def characters(text: str) -> str:
    """Return the pattern of characters such as `[a-z0-9_-]`, or `/[a-z][0-9]-/`."""
    return "[" + re.sub(r"[/\[\]]", "", text) + "]*"


def number(text: str) -> float:
    """Return a number, a whole one as int."""
    value = float(text.replace(",", ""))
    return int(value) if value.is_integer() else value


def _texts(*texts: str) -> list[str]:
    return [text.strip("`") for text in texts]


# A pattern, and the kind and the limit of its rule, from its groups.
PATTERNS: list[tuple[str, str, Callable[..., Any]]] = [
    (r"(?:[Ff]ormat:|of the form:?) `*(projects/[^` ]+)``", "pattern", resource_name),
    (r"Has the form: ``([^`]+)``", "pattern", resource_name),
    (r"\{project\}`* is a project number", "pattern", lambda: "projects/[0-9]+/.*"),
    (r"[Tt]he format is (\[\S+\]) to", "pattern", str),
    (r"^This value .*valid characters are ``([^`]+)``", "pattern", characters),
    (r"first character cannot be a number or hyphen", "pattern", lambda: "[^0-9-].*"),
    (r"[Mm]ust be a valid C identifier", "pattern", lambda: "[A-Za-z_][A-Za-z0-9_]*"),
    (r"[Mm]ust end with a dot", "pattern", lambda: r".*\."),
    (r"Has to start with '(.)'", "pattern", lambda start: f"{start}.*"),
    (r"[Mm]ust not contain whitespaces", "pattern", lambda: r"\S*"),
    (r"^(?!If).* up to (\d+) characters", "size", number),
    (r"less than (\d+) characters", "size", lambda most: number(most) - 1),
    (r"be \d+-(\d+) characters", "size", number),
    (r"Maximum limit is (\d+)", "size", number),
    (r"maximum number of [\w ]+ is (\d+)", "size", number),
    (r"[Aa] maximum of (\d+) \w+ can be", "size", number),
    (r"not contain more than ([\d,]+) values", "size", number),
    (r"only one key is allowed", "size", lambda: 1),
    (r"Minimum value is (\d+)", "range", lambda low: [number(low), None]),
    (r"greater than or equal to (\d+)", "range", lambda low: [number(low), None]),
    (RANGE, "range", lambda *ends: [*map(number, ends)]),
    (r"Limit for [\w ]+ is (\d+) (\w+)", "range", lambda n, unit: [0, number(n) * UNITS[unit]]),
    (COUNT, "range", lambda: ANY_COUNT),
    (r"increasing order and at least (\S+) apart", "increasing", float),
    (r"Only one of (?:the fields, )?(\S+) or (\S+?),? can be set", "without", _texts),
    (r"(\w+) and (\w+) are mutually exclusive", "without", _texts),
    (r"Exactly one of (\w+) and (\w+) must be set", "one", _texts),
    (r"Not supported by HyperparameterTuningJob", "choices", list),
]
FIELDS_OF = {
    "pattern": lambda field: field.type == TEXT,
    "range": lambda field: (
        not field.is_repeated
        and (field.message_type.name == "Duration" if field.message_type else field.type != TEXT)
    ),
}


def rules_of(sentence: Sentence) -> Iterator[Rule]:
    """Yield the rules that a sentence has for its field."""
    text, field = sentence.text, sentence.descriptor
    if field is None:
        return
    for pattern, kind, limit in PATTERNS:
        match = re.search(pattern, text)
        if match and FIELDS_OF.get(kind, bool)(field):
            value = limit(*match.groups())
            if kind == "without":
                value = next(name for name in value if name != sentence.field)
            yield rule(sentence, kind, value, more=AT_LEAST_0 if value == ANY_COUNT else "")
            if kind == "range" and value[0] == 1 and _is_required(sentence):
                yield rule(sentence, "one", [sentence.field])
    if match := CHOICES.search(text):
        values = next(filter(None, match.groups()))
        quoted = ["".join(groups) for groups in QUOTED.findall(values)]
        yield rule(sentence, "choices", quoted or re.split(", | or ", values.rstrip(".")))
    if match := UNIQUE.search(text):
        outer = sentence.message.removesuffix(f".{match[1]}")
        for list_field in descriptor_of(outer).fields:
            if list_field.message_type and list_field.message_type.name == match[1]:
                yield Rule(outer, list_field.name, "unique", sentence.field, shown(text))


def rule(sentence: Sentence, kind: str, limit: Any, *, more: str = "") -> Rule:
    """Return a rule for the field of a sentence; its error has `more` after the sentence."""
    return Rule(sentence.message, sentence.field, kind, limit, shown(sentence.text) + more)


def shown(text: str) -> str:
    """Return a sentence as an error has it."""
    return text.replace("``", "").rstrip(".") + "."


def _is_required(sentence: Sentence) -> bool:
    """Return whether a number must be given: in a message 0 is the same as no number."""
    is_demanded = "must" in sentence.text.lower() or sentence.comment.startswith("Required.")
    return is_demanded and "efault" not in sentence.comment
