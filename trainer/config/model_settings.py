"""Settings of a model and its optimizers; some workloads lack some of them."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trainer.config.settings import flag_name, setting
from trainer.errors import ConfigError
from trainer.workloads.base import Recipe, Workload

# Default learning rates, for models whose recipe has another optimizer.
OPTIMIZERS = {"adam": 1e-3, "sgd": 0.05, "adagrad": 0.05, "rmsprop": 1e-3}
MOMENTUM_OPTIMIZERS = ("sgd", "rmsprop")
LINEAR_OPTIMIZERS = ("ftrl", *OPTIMIZERS)
FTRL_LEARNING_RATE = 0.01


@dataclass(frozen=True, kw_only=True)
class ModelSettings:
    """Model and optimizers."""

    optimizer: str | None = setting(
        "optimizer; default: the model's own. Another one has the default learning rate"
        f" {', '.join(f'{rate:g} for {name}' for name, rate in OPTIMIZERS.items())}",
        default=None,
        choices=tuple(OPTIMIZERS),
    )
    momentum: float | None = setting(
        "momentum of sgd (Nesterov's, default 0.9) or rmsprop (default 0)",
        default=None,
        at_least=0,
        below=1,
    )
    linear_optimizer: str | None = setting(
        "optimizer of the linear part of the default model of a table; default: the deep part's",
        default=None,
        choices=LINEAR_OPTIMIZERS,
        is_advanced=True,
    )
    linear_learning_rate: float | None = setting(
        "learning rate of --linear-optimizer; ftrl uses it in every step (default"
        f" {FTRL_LEARNING_RATE:g}), the others as --schedule's peak (default: --learning-rate)",
        default=None,
        above=0,
        at_most=1000,
        is_advanced=True,
    )
    model_settings: Mapping[str, Any] = setting(
        "settings of the workload's own model by name, as --model.units=128 --model.rate=0.1;"
        " they are the keyword arguments of its function",
        factory=dict,
        has_flag=False,
    )

    def adapt(self, workload: Workload, model: str = "") -> Workload:
        """Return the workload with the model of the settings; ConfigError if it cannot."""
        for name in _OF_LINEAR_PART:
            if getattr(self, name) is not None and not workload.has_linear_part:
                own = [f"--{_PREFIX}{key}" for key in workload.settings_of(model)]
                raise ConfigError(
                    f"{flag_name(name)}: {workload.name} has no linear part; its model has"
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
        if self.linear_learning_rate is not None and not self.linear_optimizer:
            raise ConfigError("--linear-learning-rate needs --linear-optimizer")
        return recipe


_PREFIX = "model."
_OF_LINEAR_PART = ("linear_optimizer", "linear_learning_rate")


def split_model_settings(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings of which those named `model.NAME` are collected in `model_settings`."""
    own = {
        name.removeprefix(_PREFIX): value
        for name, value in values.items()
        if name.startswith(_PREFIX)
    }
    rest = {name: value for name, value in values.items() if not name.startswith(_PREFIX)}
    return {**rest, "model_settings": own} if own else rest


def is_model_setting(name: str) -> bool:
    """Return whether a setting is one of a workload's own model, `model.NAME`."""
    return name.startswith(_PREFIX)


def setting_flag(name: str) -> str:
    """Return `--batch-size` for `batch_size`, but `--model.max_depth` for a model's own setting."""
    return f"--{name}" if is_model_setting(name) else flag_name(name)


def split_model_flags(argv: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Return the other arguments, and the values of `--model.NAME=VALUE` or `--model.NAME VALUE`.

    A flag without a value is `true`.
    """
    trainer_flags, model_values = [], {}
    rest = list(argv)
    while rest:
        argument = rest.pop(0)
        if not argument.startswith(f"--{_PREFIX}"):
            trainer_flags.append(argument)
            continue
        name, has_value, value = argument.removeprefix(f"--{_PREFIX}").partition("=")
        if not has_value:
            is_alone = not rest or rest[0].startswith("--")
            value = "true" if is_alone else rest.pop(0)
        model_values[name.replace("-", "_")] = value
    return trainer_flags, model_values
