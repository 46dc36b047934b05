"""Search space of a tuning job: `--set KEY=a,b,c` are choices, `KEY=lo..hi` is a range."""

import re
from dataclasses import dataclass

from components.shared.text.yaml_text import NUMBER
from pipelines.config.run_config import RunConfig
from pipelines.config.settings import MODEL_GROUP, checked, declared_settings, try_texts
from pipelines.projects.description import describe
from trainer import Json
from trainer.config.model_settings import is_model_setting, setting_flag
from trainer.errors import ConfigError, did_you_mean

RANGE = re.compile(rf"({NUMBER})\.\.({NUMBER})")
INTEGER = re.compile(r"[-+]?[0-9]+")
COMMA = re.compile(r",(?![^\[]*\])")  # not inside [64,32]
LOG_RATIO = 100  # of the ends of a range; from here on its scale is taken as logarithmic
TRAIN = "train."
# Types of JSON schemas as models' own settings have them.
KINDS = {
    "integer": "int",
    "number": "float",
    "boolean": "bool",
    "array": "tuple",
    "string": "str",
    "object": "dict",
}


@dataclass(frozen=True, kw_only=True)
class Varied:
    """A setting that the trials vary: choices as they are written, or a range."""

    key: str
    choices: tuple[str, ...] = ()
    low: float = 0
    high: float = 0
    is_integer: bool = False

    @property
    def is_log(self) -> bool:
        """True for a range over at least two orders of magnitude."""
        return self.low > 0 and self.high >= LOG_RATIO * self.low

    @property
    def parameter_id(self) -> str:
        """The trainer's flag without its dashes: Vertex AI adds `--ID=VALUE` to its arguments."""
        return setting_flag(self.key.removeprefix(TRAIN)).removeprefix("--")

    def to_spec(self) -> Json:
        """Return the StudySpec.ParameterSpec."""
        if self.choices:
            return {
                "parameterId": self.parameter_id,
                "categoricalValueSpec": {"values": list(self.choices)},
            }
        number = (lambda end: str(int(end))) if self.is_integer else float  # int64 is text in JSON
        ends = {"minValue": number(self.low), "maxValue": number(self.high)}
        return {
            "parameterId": self.parameter_id,
            "integerValueSpec" if self.is_integer else "doubleValueSpec": ends,
            "scaleType": "UNIT_LOG_SCALE" if self.is_log else "UNIT_LINEAR_SCALE",
        }

    def __str__(self) -> str:
        if self.choices:
            return f"{self.key}: {', '.join(self.choices)}"
        kind = "whole numbers " if self.is_integer else ""
        words = f"{self.key}: {kind}{self.low:g} to {self.high:g}"
        if self.is_log:
            words += (
                f" on a log scale (guessed: the ends differ {LOG_RATIO}-fold; else write choices)"
            )
        return words


def key_of(parameter_id: str) -> str:
    """Return the setting of a parameter: `train.learning_rate` of `learning-rate`."""
    is_own = is_model_setting(parameter_id)
    return parameter_id if is_own else TRAIN + parameter_id.replace("-", "_")


def split_space(settings: list[str], config: RunConfig) -> tuple[list[str], list[Varied]]:
    """Return the settings with one value, and those that the trials vary.

    Raises:
        ConfigError: a setting cannot be varied, or one of its values is not allowed.
    """
    pairs = [(text, *text.partition("=")[::2]) for text in settings]
    several = [key for _, key, value in pairs if RANGE.fullmatch(value) or "," in value]
    kinds = _kinds(several, config)
    fixed, varied = [], []
    for text, key, value in pairs:
        ends = RANGE.fullmatch(value)
        can_vary = key.startswith((TRAIN, f"{MODEL_GROUP}."))
        is_list = kinds.get(key) == "tuple" and "[" not in value
        choices = COMMA.split(value) if can_vary and not is_list else [value]
        if len(choices) == 1 and not ends:
            fixed.append(text)
            continue
        if not can_vary:
            raise ConfigError(
                f"--set {text}: trials cannot vary {key}, only train.NAME and model.NAME: the "
                "examples are prepared once; give it one value"
            )
        values = ends.groups() if ends else tuple(choice.strip("[] ") for choice in choices)
        for choice in values:
            checked(*try_texts(config, [(f"--set {text}", key, choice)]))
        varied.append(_varied(text, key, values, is_range=bool(ends), kind=kinds[key]))
    if not varied:
        raise ConfigError(
            "nothing to vary; give at least one setting several values, as --set "
            "train.batch_size=64,256, or a range, as --set train.learning_rate=1e-4..1e-2"
        )
    return fixed, varied


def _varied(text: str, key: str, values: tuple[str, ...], *, is_range: bool, kind: str) -> Varied:
    if kind == "bool":
        raise ConfigError(
            f"--set {text}: trials cannot vary {key}, which is a flag without a value; tune with "
            "it and without it"
        )
    if not is_range:
        if "" in values or len(set(values)) < len(values):
            raise ConfigError(f"--set {text}: the choices must be different, and none empty")
        return Varied(key=key, choices=values)
    if kind not in ("int", "float"):
        raise ConfigError(f"--set {text}: {key} is no number; give choices, as a,b,c")
    low, high = map(float, values)
    if low >= high:
        raise ConfigError(f"--set {text}: the range must go from a lower to a higher number")
    if kind == "int" and not all(map(INTEGER.fullmatch, values)):
        raise ConfigError(f"--set {text}: {key} is a whole number, and so must be the ends")
    return Varied(key=key, low=low, high=high, is_integer=kind == "int")


def _kinds(keys: list[str], config: RunConfig) -> dict[str, str]:
    """Return the types of settings, `int`; only settings of the model load the workload.

    Raises:
        ConfigError: the model has no such setting.
    """
    declared = declared_settings()
    kinds = {key: KINDS[declared[key]["type"]] for key in keys if key in declared}
    if names := [key.partition(".")[2] for key in keys if is_model_setting(key)]:
        own = describe(config)["settings"]
        for name in names:
            if name not in own:
                raise ConfigError(
                    f"model.{name}: the model of {config.name} has no such setting;"
                    f"{did_you_mean(name, own)} it has {', '.join(own) or 'none'}"
                )
            kinds[f"{MODEL_GROUP}.{name}"] = str(own[name]["type"])
    return kinds
