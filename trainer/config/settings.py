"""Settings: a model of pydantic for each group, whose fields have a help, limits and a default.

From the models come the command line's flags (flags.py), `--set` and run.yaml (pipelines/config),
the JSON parameters of steps, and the JSON schemas that editors use.
"""

import contextlib
import dataclasses
import functools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    TypeAdapter,
    ValidationError,
)

from trainer import Json
from trainer.errors import ConfigError, did_you_mean

SEE_SETTINGS = "`trainyard settings --all` lists them"
MOST = 10**9  # of a number without a limit of its own
MOST_SECONDS = 31 * 24 * 3600
SECRET = "password"  # JSON schema's format of a text that messages do not repeat
# Line breaks, other controls, and bytes that are not UTF-8.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_JSON_OBJECT = TypeAdapter(dict[str, Any])


def _check_line(text: str) -> str:
    if _CONTROL.search(text):
        raise ValueError
    return text


def split_list(value: Any) -> Any:
    """Return the items of a text with commas, or of a list; anything else as it is."""
    if isinstance(value, str):
        return tuple(item.strip() for item in value.split(",") if item.strip())
    return tuple(value) if isinstance(value, list) else value


def read_mapping(value: Any) -> Any:
    """Return the mapping of a flag, `train=0.8,eval=0.2` or JSON; anything else as it is."""
    if not isinstance(value, str):
        return value
    try:
        pairs = (item.strip().split("=") for item in value.split(","))
        return json.loads(value) if value.startswith("{") else dict(pairs)
    except ValueError as error:
        raise ValueError from error


@dataclasses.dataclass(frozen=True)
class OneOf:
    """Annotation of a text that is one of `choices`, where Literal cannot list them."""

    choices: tuple[str, ...]

    def __get_pydantic_core_schema__(self, _: Any, handler: GetCoreSchemaHandler) -> Any:
        """Return pydantic's schema."""
        return handler.generate_schema(Literal[self.choices])


Line = Annotated[str, AfterValidator(_check_line)]
Name = Annotated[str, Field(min_length=1), AfterValidator(_check_line)]
Texts = Annotated[
    tuple[Line, ...], BeforeValidator(split_list, json_schema_input_type=str | tuple[Line, ...])
]


def setting(help_: str, default: Any = ..., *, form: str = "", **limits: Any) -> Any:
    """Return a field with its help; `form` has in words what `pattern` or a validator allows.

    A text whose default is "" may be empty, whatever its pattern says.
    """
    if pattern := limits.pop("pattern", ""):
        optional = "?" if default == "" else ""
        limits["pattern"] = f"^(?:{pattern}){optional}$"
    extra: Any = {"form": form} if form else None
    return Field(default, description=help_, json_schema_extra=extra, **limits)


class SettingsError(ConfigError):
    """Settings that are not allowed; `problems` by the keys of the settings."""

    def __init__(self, *problems: tuple[str, str]):
        super().__init__(*(text for _, text in problems))
        self.keys = tuple(key for key, _ in problems)


class Settings(BaseModel):
    """Base of groups of settings; `group` is the parameter of the run that has them as JSON.

    Unknown names, values of another type, NaN and infinity are refused, all at once.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        allow_inf_nan=False,
        validate_by_name=True,
        validate_by_alias=True,
        serialize_by_alias=True,
    )
    group: ClassVar[str] = ""

    def __init__(self, **values: Any):
        with refusals(type(self)):
            super().__init__(**values)

    # Of a group inside another one the other reports the errors, with its own name before theirs.
    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]

    @classmethod
    def from_texts(cls, texts: Mapping[str, Any]) -> Self:
        """Return the settings of flags or variables; ConfigError has their names."""
        try:
            with refusals(cls):
                return cls.model_validate(texts, strict=False)
        except SettingsError as error:
            raise ConfigError(as_flags(str(error), cls.group)) from error

    @classmethod
    def from_json(cls, text: str, **more: Any) -> Self:
        """Return the settings of a parameter; "" has the defaults, or more values."""
        try:
            values = _JSON_OBJECT.validate_json(text or "{}")
        except ValidationError as error:
            raise ConfigError(f"{cls.group} is {text!r}; it must be a JSON object") from error
        return cls(**(more | values))

    def replace(self, **changes: Any) -> Self:
        """Return the settings with others, checked again."""
        fields = type(self).model_fields
        given = {fields[name].alias or name: getattr(self, name) for name in self.model_fields_set}
        return type(self)(**given | changes)

    def given(self) -> Json:
        """Return the settings that were given, as JSON."""
        return self.model_dump(mode="json", exclude_unset=True)


@contextlib.contextmanager
def refusals(model: type[Settings]) -> Iterator[None]:
    """Raise SettingsError, a sentence for each setting, instead of pydantic's errors."""
    try:
        yield
    except ValidationError as error:
        problems = [found for one in error.errors() for found in _problems(model, one)]
        raise SettingsError(*problems) from error


def _problems(model: type[Settings], error: Any) -> list[tuple[str, str]]:
    """Return the key and the sentence of an error of pydantic, or of several that it collects."""
    location = [part for part in error["loc"] if part != "[key]"]
    path = [*map(str, location)]
    dotted = ".".join(filter(None, (model.group, *path)))
    parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in location)
    key = (model.group + "".join(parts)).removeprefix(".")
    cause = error.get("ctx", {}).get("error")
    if isinstance(cause, ConfigError):  # of settings that do not fit each other
        return [(dotted, problem) for problem in cause.problems]
    value, schema = error["input"], schema_at(model, path)
    if error["type"] == "extra_forbidden" or error["loc"][-1:] == ("[key]",):
        owner, schema = key.rpartition(".")[0], schema_at(model, path[:-1])
        names = schema.get("properties") or schema["propertyNames"]["enum"]
        hint = did_you_mean(path[-1], names)
        known = (
            SEE_SETTINGS
            if "properties" in schema and model.group
            else f"allowed are {', '.join(names)}"
        )
        text = f"{owner or 'it'} has no {path[-1]!r};{hint} {known}"
    elif error["type"] == "missing":
        text = f"{key} is not set; set it to the {schema.get('description', 'value')}"
    else:
        shown = "has another form" if schema.get("format") == SECRET else f"is {value!r}"
        hint = did_you_mean(value, schema.get("enum", ()))
        text = f"{key} {shown};{hint} {str(cause or '') or allowed(schema)}"
    return [(dotted, text)]


@functools.cache
def schema_of(model: type[Settings]) -> Json:
    """Return the JSON schema of a group."""
    return model.model_json_schema()


def schema_at(model: type[Settings], path: Sequence[str] = ()) -> Json:
    """Return the schema of a setting, of a group or of what a mapping or a list holds."""
    whole = schema_of(model)
    schema = whole
    for name in path:
        inner = schema.get("properties", {}).get(name)
        inner = inner or schema.get("additionalProperties") or schema.get("items")
        schema = _plain(inner, whole) if isinstance(inner, dict) else schema
    return schema


def _plain(schema: Json, whole: Json) -> Json:
    """Return a schema with what it refers to, and without the null that it also allows."""
    schema = dict(schema)
    members = [member for member in schema.pop("anyOf", []) if member.get("type") != "null"]
    inner: Json = members[-1] if members else {}
    if reference := schema.pop("$ref", ""):
        inner = whole["$defs"][reference.rpartition("/")[2]]
    return _plain(inner, whole) | schema if inner else schema


def allowed(schema: Json) -> str:
    """Return what the schema of a setting allows, in words."""
    if form := schema.get("form"):
        return f"it must be {form}" + (", or empty" if schema.get("default") == "" else "")
    if choices := schema.get("enum"):
        return f"allowed are {', '.join(filter(None, choices))}"
    kind = schema.get("type", "")
    if kind in ("integer", "number"):
        number = "a whole number" if kind == "integer" else "a number"
        return f"it must be {number}{_limits(schema)}"
    words = {
        "boolean": "true or false",
        "string": "a text on one line" + (" that is not empty" if "minLength" in schema else ""),
        "array": "a list of texts, separated by commas, as a,b",
        "object": f"{'numbers' if _of_numbers(schema) else 'values'} by name, as {{NAME: VALUE}}",
    }
    return f"it must be {words.get(kind, 'another value')}"


def _limits(schema: Json) -> str:
    """Return the limits of a number in words: ` of at least 0 and below 1`."""
    if "minimum" in schema and "maximum" in schema:
        return f" from {schema['minimum']:.12g} to {schema['maximum']:.12g}"
    words = {
        "of at least": "minimum",
        "above": "exclusiveMinimum",
        "below": "exclusiveMaximum",
        "at most": "maximum",
    }
    limits = [f"{word} {schema[name]:.12g}" for word, name in words.items() if name in schema]
    return f" {' and '.join(limits)}" if limits else ""


def _of_numbers(schema: Json) -> bool:
    inner = schema.get("additionalProperties")
    return isinstance(inner, dict) and inner.get("type") in ("integer", "number")


def flag_name(name: str) -> str:
    """Return `--batch-size` for `batch_size`."""
    return "--" + name.replace("_", "-")


def as_flags(text: str, group: str) -> str:
    """Return a text with `--batch-size` for `train.batch_size`."""
    return re.sub(rf"\b{group}\.(\w+)", lambda key: flag_name(key[1]), text) if group else text
