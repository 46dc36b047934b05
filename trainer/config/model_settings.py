"""Settings of a model and its optimizers; some workloads lack some of them."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

from pydantic import SerializerFunctionWrapHandler, model_serializer, model_validator

from trainer import Json
from trainer.config.settings import Settings, flag_name, setting
from trainer.errors import ConfigError
from trainer.workloads.base import Recipe, Workload

# Default learning rates, for models whose recipe has another optimizer.
OPTIMIZERS = {"adam": 1e-3, "sgd": 0.05, "adagrad": 0.05, "rmsprop": 1e-3}
MOMENTUM_OPTIMIZERS = ("sgd", "rmsprop")
FTRL_LEARNING_RATE = 0.01


class ModelSettings(Settings):
    """Model and optimizers."""

    group: ClassVar[str] = "train"
    optimizer: Literal["adam", "sgd", "adagrad", "rmsprop"] | None = setting(
        "optimizer; default: the model's own. Another one has the default learning rate"
        f" {', '.join(f'{rate:g} for {name}' for name, rate in OPTIMIZERS.items())}",
        default=None,
    )
    momentum: float | None = setting(
        "momentum of sgd (Nesterov's, default 0.9) or rmsprop (default 0)",
        default=None,
        ge=0,
        lt=1,
    )
    linear_optimizer: Literal["ftrl", "adam", "sgd", "adagrad", "rmsprop"] | None = setting(
        "optimizer of the linear part of the default model of a table; default: the deep part's",
        default=None,
    )
    model_settings: Mapping[str, Any] = setting(
        "settings of the workload's own model by name, as --model.units=128 --model.rate=0.1;"
        " they are the keyword arguments of its function",
        default_factory=dict,
    )

    @model_validator(mode="before")
    @classmethod
    def _collect_model_settings(cls, values: Any) -> Any:
        own = {
            name.removeprefix(_PREFIX): values[name] for name in values if is_model_setting(name)
        }
        rest = {name: value for name, value in values.items() if not is_model_setting(name)}
        return {**rest, "model_settings": own} if own else rest

    @model_serializer(mode="wrap")
    def _spread_model_settings(self, write: SerializerFunctionWrapHandler) -> Json:
        values = write(self)
        own = values.pop("model_settings", {})
        return values | {f"{_PREFIX}{name}": value for name, value in own.items()}

    def adapt(self, workload: Workload, model: str = "") -> Workload:
        """Return the workload with the model of the settings; ConfigError if it cannot."""
        if self.linear_optimizer and not workload.has_linear_part:
            own = [f"--{_PREFIX}{key}" for key in workload.settings_of(model)]
            raise ConfigError(
                f"--linear-optimizer: {workload.name} has no linear part; its model has"
                f" {', '.join(['--optimizer', '--momentum', *own])}"
            )
        try:
            return workload.with_settings(self.model_settings, model)
        except ValueError as error:
            raise ConfigError(f"--{error}") from error

    def apply(self, recipe: Recipe) -> Recipe:
        """Return the recipe with the given optimizer and, if it is another one, its defaults."""
        if self.optimizer and self.optimizer != recipe.optimizer:
            rate = OPTIMIZERS[self.optimizer]
            # A step decays the weights by this times the learning rate: keep the product.
            decay = recipe.weight_decay * recipe.learning_rate / rate
            recipe = dataclasses.replace(
                recipe, optimizer=self.optimizer, learning_rate=rate, weight_decay=decay
            )
        if self.momentum is not None and recipe.optimizer not in MOMENTUM_OPTIMIZERS:
            raise ConfigError(
                f"--momentum is {self.momentum}, but {recipe.optimizer} has none; use --optimizer"
                f" {' or '.join(MOMENTUM_OPTIMIZERS)}, or drop it"
            )
        return recipe


_PREFIX = "model."


def is_model_setting(name: str) -> bool:
    """Return whether a setting is one of a workload's own model, `model.NAME`."""
    return name.startswith(_PREFIX)


def setting_flag(name: str) -> str:
    """Return `--batch-size` for `batch_size`, but `--model.max_depth` for a model's own setting."""
    return f"--{name}" if is_model_setting(name) else flag_name(name)


def split_model_flags(argv: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Return the other arguments, and `model.NAME` of `--model.NAME=VALUE` or `--model.NAME VALUE`.

    A flag without a value is `true`.
    """
    trainer_flags, model_values = [], {}
    rest = list(argv)
    while rest:
        argument = rest.pop(0)
        if not argument.startswith(f"--{_PREFIX}"):
            trainer_flags.append(argument)
            continue
        name, has_value, value = argument.removeprefix("--").partition("=")
        if not has_value:
            is_alone = not rest or rest[0].startswith("--")
            value = "true" if is_alone else rest.pop(0)
        model_values[name.replace("-", "_")] = value
    return trainer_flags, model_values
