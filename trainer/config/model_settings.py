"""Settings of a model and its optimizers; some workloads lack some of them."""

import dataclasses
from collections.abc import Mapping
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
        "taxi: optimizer of the linear (wide) part; default: that of the deep part",
        default=None,
        choices=LINEAR_OPTIMIZERS,
    )
    linear_learning_rate: float | None = setting(
        "learning rate of --linear-optimizer; ftrl uses it in every step (default"
        f" {FTRL_LEARNING_RATE:g}), the others as --schedule's peak (default: --learning-rate)",
        default=None,
        above=0,
    )
    hidden_units: str = setting(
        "taxi: sizes of the hidden layers, such as 128,64; default: 64,32", default=""
    )
    crosses: str = setting(
        "taxi: columns whose combinations have weights in the linear part, such as"
        " payment_type:company,trip_start_day:trip_start_hour; none for no crosses; default: five"
        " pairs of columns",
        default="",
    )
    embedding_size: int | None = setting(
        "taxi: size of a category's embedding in the deep part; default 8",
        default=None,
        at_least=1,
    )
    batch_norm: bool = setting(
        "taxi: batch normalization in the hidden layers, with the statistics of each replica's"
        " part of a batch",
        default=False,
    )

    def options(self) -> dict[str, Any]:
        """Return the given settings that only some workloads have."""
        return {
            name: getattr(self, name)
            for name in _OPTIONAL
            if getattr(self, name) not in (None, "", False)
        }

    def adapt(self, workload: Workload) -> Workload:
        """Return the workload with the model that the settings describe.

        Raises:
            ConfigError: the workload has no such setting, or not with this value.
        """
        given = self.options()
        if missing := [name for name in given if name not in workload.options]:
            names = [field.name for field in dataclasses.fields(ModelSettings)]
            has = [name for name in names if name not in _OPTIONAL or name in workload.options]
            raise ConfigError(
                f"{flag_name(missing[0])}: {workload.name} has no such setting; its model has"
                f" {', '.join(map(flag_name, has))}"
            )
        model = {name: value for name, value in given.items() if not name.startswith("linear_")}
        try:
            return workload.with_options(model)
        except ValueError as error:
            raise ConfigError(f"--{error}") from error

    def apply(self, recipe: Recipe) -> Recipe:
        """Return the recipe with the given optimizer and, if it is another one, its defaults.

        Raises:
            ConfigError: two settings contradict each other.
        """
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


_OPTIONAL = (
    *("linear_optimizer", "linear_learning_rate"),
    *("hidden_units", "crosses", "embedding_size", "batch_norm"),
)


def as_texts(values: Mapping[str, Any]) -> dict[str, str]:
    """Return the list settings that are given as lists or numbers as texts: `128,64`."""
    return {
        name: ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
        for name in ("hidden_units", "crosses")
        if isinstance(value := values[name], list | tuple | int) and not isinstance(value, bool)
    }
