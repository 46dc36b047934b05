"""The settings of a model and of its optimizers. Some are of certain workloads' models only."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trainer.config.settings import ConfigError, flag_name, setting
from trainer.workloads.base import Recipe, Workload

# The learning rate of each, where it is not the optimizer that the model's recipe was made for.
OPTIMIZERS = {"adam": 1e-3, "sgd": 0.05, "adagrad": 0.05, "rmsprop": 1e-3}
HAVE_MOMENTUM = ("sgd", "rmsprop")
LINEAR_OPTIMIZERS = ("ftrl", *OPTIMIZERS)
FTRL_LEARNING_RATE = 0.01


@dataclass(frozen=True, kw_only=True)
class ModelSettings:
    """Model and optimizers."""

    optimizer: str | None = setting(
        "default: the model's own; with another one the default learning rate is"
        f" {', '.join(f'{rate:g} for {name}' for name, rate in OPTIMIZERS.items())}",
        default=None,
        choices=tuple(OPTIMIZERS),
    )
    momentum: float | None = setting(
        "of sgd (Nesterov's, default 0.9) and of rmsprop (default 0)",
        default=None,
        at_least=0,
        below=1,
    )
    linear_optimizer: str | None = setting(
        "taxi: optimizer of the linear (wide) part; default: the same as of the rest",
        default=None,
        choices=LINEAR_OPTIMIZERS,
    )
    linear_learning_rate: float | None = setting(
        f"of --linear-optimizer; ftrl keeps it in every step (default {FTRL_LEARNING_RATE:g}), the"
        " others follow --schedule with it as the peak (default: as --learning-rate)",
        default=None,
        above=0,
    )
    hidden_units: str = setting(
        "taxi: sizes of the hidden layers, such as 128,64; default: 64,32", default=""
    )
    crosses: str = setting(
        "taxi: columns whose combinations get weights in the linear part, such as"
        " payment_type:company,trip_start_day:trip_start_hour; none for no crosses; default: five"
        " pairs of columns",
        default="",
    )
    embedding_size: int | None = setting(
        "taxi: numbers that stand for a category in the deep part; default 8",
        default=None,
        at_least=1,
    )
    batch_norm: bool = setting(
        "taxi: batch normalisation in the hidden layers; a replica normalises its part of a batch"
        " by the statistics of that part",
        default=False,
    )

    def options(self) -> dict[str, Any]:
        """Returns the given settings that only some workloads have."""
        return {
            name: getattr(self, name)
            for name in _OF_SOME
            if getattr(self, name) not in (None, "", False)
        }

    def adapt(self, workload: Workload) -> Workload:
        """Returns the workload with the model that is asked for.

        Raises:
            ConfigError: the workload has no such setting, or not with this value.
        """
        given = self.options()
        if missing := [name for name in given if name not in workload.options]:
            names = [field.name for field in dataclasses.fields(ModelSettings)]
            has = [name for name in names if name not in _OF_SOME or name in workload.options]
            raise ConfigError(
                f"{flag_name(missing[0])}: {workload.name} has no such setting; of its model it has"
                f" {', '.join(map(flag_name, has))}"
            )
        model = {name: value for name, value in given.items() if not name.startswith("linear_")}
        try:
            return workload.with_options(model)
        except ValueError as error:
            raise ConfigError(f"--{error}") from error

    def change(self, recipe: Recipe) -> Recipe:
        """Returns the recipe with the given optimizer and, unless that is its own, its defaults.

        Raises:
            ConfigError: two of the settings do not go together.
        """
        if self.optimizer and self.optimizer != recipe.optimizer:
            rate = OPTIMIZERS[self.optimizer]
            # What a step takes from the weights is this times the learning rate: it stays.
            decay = recipe.weight_decay * recipe.learning_rate / rate
            recipe = dataclasses.replace(
                recipe, optimizer=self.optimizer, learning_rate=rate, weight_decay=decay
            )
        if self.momentum is not None and recipe.optimizer not in HAVE_MOMENTUM:
            raise ConfigError(
                f"--momentum: {recipe.optimizer} has none; {' and '.join(HAVE_MOMENTUM)} have it"
            )
        if self.linear_learning_rate is not None and not self.linear_optimizer:
            raise ConfigError("--linear-learning-rate needs --linear-optimizer")
        return recipe


_OF_SOME = (
    *("linear_optimizer", "linear_learning_rate"),
    *("hidden_units", "crosses", "embedding_size", "batch_norm"),
)


def as_texts(values: Mapping[str, Any]) -> dict[str, str]:
    """Returns the settings that are lists, given as such or as one number, as texts: `128,64`."""
    return {
        name: ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
        for name in ("hidden_units", "crosses")
        if isinstance(value := values[name], list | tuple | int) and not isinstance(value, bool)
    }
