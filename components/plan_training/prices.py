"""Cost of a cluster on Vertex AI, from an editable price table, and the quota that it needs.

https://cloud.google.com/vertex-ai/docs/quotas
"""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import model_validator

from components.plan_training.cluster_file import read_yaml
from components.plan_training.machines import Machine
from components.plan_training.shape import Shape
from trainer.config.settings import MOST, Settings, SettingsError, refusals, setting
from trainer.errors import ClusterError

_SECONDS_PER_HOUR = 3600
# Among the code, so that it is in the image: the exit task of a run on Vertex AI reads it, too.
PRICES = Path(__file__).with_name("prices.yaml")
Price = tuple[float, float]
_QUOTAS = "custom_model_training_"
SHARED = ("n1", "e2")  # families whose CPUs are counted together
_CPUS = re.compile(r"(?P<family>[a-z]+\d+)-(?:standard|highmem|highcpu)-(?P<cpus>\d+)")


class FilePrice(Settings):
    """A price in a file: dollars an hour, or {on_demand: 1.5, spot: 0.6}."""

    on_demand: float = setting("dollars an hour", ge=0, le=MOST)
    spot: float | None = setting("dollars an hour on spot machines", None, ge=0, le=MOST)

    @model_validator(mode="before")
    @classmethod
    def _of_number(cls, value: Any) -> Any:
        return value if isinstance(value, Mapping) else {"on_demand": value}

    def pair(self, spot_share: float) -> Price:
        """Return the price on demand and on spot machines."""
        return self.on_demand, self.on_demand * spot_share if self.spot is None else self.spot


class PriceFile(Settings):
    """Content of a price table's file."""

    date: str = ""
    region: str = ""
    source: str = ""
    spot_share: float = setting("share of a price that a spot machine costs", ge=0, le=1)
    machines: Mapping[str, FilePrice]
    accelerators: Mapping[str, FilePrice]


@dataclass(frozen=True, kw_only=True)
class PriceTable:
    """Prices in US dollars an hour, (on demand, spot), by machine type and by GPU type.

    The price of a machine with built-in GPUs includes them.
    """

    date: str
    region: str
    machines: Mapping[str, Price]
    accelerators: Mapping[str, Price]

    def machine_price(self, machine: Machine) -> Price | None:
        """Return the price of one machine with its GPUs; None if the table lacks one of them."""
        base, gpus = self.machines.get(machine.type), machine.accelerator
        if base is None or gpus is None or not machine.type.startswith("n1-"):
            return base
        each = self.accelerators.get(gpus.type)
        if each is None:
            return None
        return base[0] + gpus.count * each[0], base[1] + gpus.count * each[1]


@dataclass(frozen=True, kw_only=True)
class Cost:
    """US dollars an hour on demand and on spot machines, and the machines without a price."""

    on_demand: float
    spot: float
    unknown: tuple[str, ...]

    def until(self, seconds: float, *, is_spot: bool) -> float:
        """Return the cost of a job that runs for a time."""
        hourly = self.spot if is_spot else self.on_demand
        return hourly * seconds / _SECONDS_PER_HOUR


@dataclass(frozen=True, kw_only=True)
class TrainingPrice:
    """Price of a training on Vertex AI, in US dollars; `cost` is for an hour.

    It is `expected` for a duration in `seconds`, at most `most` for the job's time limit, on `spot`
    or `on demand` machines, by the prices of a `table` (region and date). Starts are not counted.
    """

    cost: Cost
    seconds: float | None
    expected: float | None
    most: float
    kind: str
    table: str


def training_price(
    shape: Shape, seconds: float | None, *, prices: Path = PRICES
) -> TrainingPrice | None:
    """Return the price of a training with a duration; None on a persistent resource."""
    if shape.persistent_resource:
        return None
    table = read_prices(prices)
    cost = cluster_cost(shape, table)
    return TrainingPrice(
        cost=cost,
        seconds=seconds,
        expected=None if seconds is None else cost.until(seconds, is_spot=shape.spot),
        most=cost.until(shape.timeout_seconds, is_spot=shape.spot),
        kind="spot" if shape.spot else "on demand",
        table=f"{table.region}, {table.date}",
    )


def resource_note(shape: Shape) -> str:
    """Return a note on the price of a job on a persistent resource, "" for any other."""
    name = shape.persistent_resource
    note = f"no machine is started; the persistent resource {name} costs as long as it exists"
    return note if name else ""


def cluster_cost(shape: Shape, table: PriceTable) -> Cost:
    """Return the cost of all replicas."""
    prices = [(pool, table.machine_price(pool.machine)) for pool in shape.pools()]
    priced = [(pool.count, price) for pool, price in prices if price]
    return Cost(
        on_demand=sum(count * price[0] for count, price in priced),
        spot=sum(count * price[1] for count, price in priced),
        unknown=tuple(dict.fromkeys(str(pool.machine) for pool, price in prices if not price)),
    )


def read_prices(path: Path) -> PriceTable:
    """Return the table of a file such as PRICES.

    Raises:
        ClusterError: a field is missing or wrong.
        OSError: it cannot be read.
    """
    try:
        with refusals(PriceFile):
            file = PriceFile.model_validate(read_yaml(path))
    except SettingsError as error:
        raise ClusterError(*(f"{path}: {problem}" for problem in error.problems)) from error
    share = file.spot_share
    machines = {name: price.pair(share) for name, price in file.machines.items()}
    gpus = {name: price.pair(share) for name, price in file.accelerators.items()}
    return PriceTable(date=file.date, region=file.region, machines=machines, accelerators=gpus)


def quota_needed(shape: Shape) -> dict[str, int]:
    """Return the number of CPUs and GPUs by metric, such as `custom_model_training_cpus`.

    Only GPUs are counted of machines whose names do not tell their CPUs, as `a2-highgpu-1g`. A job
    on a persistent resource starts no machine and needs no quota.
    """
    if shape.persistent_resource:
        return {}
    needed: Counter[str] = Counter()
    kind = f"{_QUOTAS}preemptible_" if shape.spot else _QUOTAS
    for pool in shape.pools():
        if match := _CPUS.fullmatch(pool.machine.type):
            family = "" if match["family"] in SHARED else f"{match['family']}_"
            needed[f"{kind}{family}cpus"] += pool.count * int(match["cpus"])
        if gpus := pool.machine.accelerator:
            name = gpus.type.lower().replace("tesla_", "")
            needed[f"{kind}{name}_gpus"] += pool.count * gpus.count
    return dict(needed)
