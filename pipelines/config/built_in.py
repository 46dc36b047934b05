"""The runs of the built-in workloads."""

from collections.abc import Callable

from components.evaluate.gate.options import GateOptions
from components.plan_training.shape import ClusterSpec
from pipelines.config.run_config import RunConfig
from trainer import Json
from trainer.config.train_config import TrainSettings
from trainer.workloads.loading import load_workload

SLICES = ("trip_start_hour", "payment_type", "company", "missing(pickup_latitude)")


def mnist() -> RunConfig:
    """MNIST on a parameter-server cluster of four processes."""
    return RunConfig(
        workload="mnist",
        model_name="mnist",
        endpoint_name="mnist",
        cluster=ClusterSpec(strategy="parameter_server", workers=2, parameter_servers=1),
        train=TrainSettings(epochs=2, batch_size=128),
        thresholds={"accuracy": 0.985},
    )


def cifar10() -> RunConfig:
    """CIFAR-10 on one machine; `make train-cifar10` draws its curve."""
    return RunConfig(
        workload="cifar10",
        model_name="cifar10",
        endpoint_name="cifar10",
        cluster=ClusterSpec(timeout_seconds=6 * 3600),
        train=TrainSettings(model="fast", epochs=16, batch_size=256, mixed_precision=True),
        thresholds={"accuracy": 0.91},
    )


def taxi() -> RunConfig:
    """Chicago taxi tips on one machine: a quarter of a minute."""
    return RunConfig(
        workload="taxi",
        model_name="taxi",
        endpoint_name="taxi",
        train=TrainSettings(epochs=12, batch_size=128),
        thresholds={"auc": 0.94, "accuracy": 0.88},
        gate=GateOptions(slices=SLICES),
    )


def metrics_of(workload: str) -> list[str]:
    """Return the metrics of a built-in workload, by its name."""
    return load_workload(workload).evaluated_metrics


def columns_of(workload: str) -> Json:
    """Return the features and aliases of a built-in workload, as `describe` does."""
    loaded = load_workload(workload)
    return {"features": loaded.feature_names, "aliases": getattr(loaded, "aliases", {})}


RUNS: dict[str, Callable[[], RunConfig]] = {"mnist": mnist, "cifar10": cifar10, "taxi": taxi}
