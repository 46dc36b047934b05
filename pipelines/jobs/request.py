"""The request for a training job without a pipeline: the one that the pipeline's step makes."""

import argparse
import dataclasses
from collections.abc import Sequence
from typing import Any, NoReturn

from components.plan_training.plan import plan_training
from components.plan_training.spellings.vertex import camel_case
from pipelines.config import RunConfig, trainer_flags
from trainer.config.flags import add_flags
from trainer.config.settings import ConfigError
from trainer.config.train_config import TrainConfig
from trainer.json_types import Json

# What vertex_local calls it; see its cpus.py.
PIN_VARIABLE = "VERTEX_LOCAL_PIN_REPLICAS"


def job_request(
    config: RunConfig,
    *,
    name: str,
    image: str,
    examples_uri: str,
    output_uri: str,
    service_account: str = "",
    is_pinned: bool = False,
) -> Json:
    """The body of `POST …/customJobs`: a CustomJob as Vertex AI's REST API takes it.

    `is_pinned` asks the service on this machine for a core for each replica that computes.

    https://cloud.google.com/vertex-ai/docs/reference/rest/v1/projects.locations.customJobs/create
    """
    plan = plan_training(
        config.workload,
        cluster=config.cluster,
        train=config.train,
        image=image,
        examples_uri=examples_uri,
    )
    if is_pinned:
        for pool in plan.worker_pool_specs:
            if container := pool.get("container_spec"):
                container["env"] = [{"name": PIN_VARIABLE, "value": "1"}]
    job_spec = {
        "worker_pool_specs": plan.worker_pool_specs,
        "scheduling": {
            "timeout": plan.timeout,
            "restart_job_on_worker_restart": plan.restarts_whole_job,
            "strategy": plan.scheduling_strategy,
            **({"disable_retries": True} if plan.disables_retries else {}),
        },
        "base_output_directory": {"output_uri_prefix": output_uri},
        **({"service_account": service_account} if service_account else {}),
    }
    request: Json = _in_camel_case({"display_name": name, "job_spec": job_spec})
    return request


def with_flags(config: RunConfig, flags: Sequence[str]) -> RunConfig:
    """The run's settings with the trainer's flags that follow `--`; those win.

    Raises:
        ConfigError: a flag is unknown, has a wrong value, or is set by the job itself.
    """
    given = _given(flags, workload=config.workload)
    if planned := sorted(set(given) - set(trainer_flags())):
        raise ConfigError(
            f"--{planned[0].replace('_', '-')} after --: the job sets it; give --examples-dir and "
            "--cluster before the --, and find the output where `jobs submit` says"
        )
    other = {"steps": "epochs", "epochs": "steps"}
    dropped = {other[name] for name in given if name in other} - set(given)
    train = {name: value for name, value in config.train.items() if name not in dropped}
    try:
        return dataclasses.replace(config, train={**train, **given})
    except ValueError as error:
        raise ConfigError(f"flags after --: {error}") from error


class _Parser(argparse.ArgumentParser):
    """Raises where argparse would end the process."""

    def error(self, message: str) -> NoReturn:
        raise ConfigError(
            f"flags after --: {message}; see python -m trainer.task --help, and for "
            "old flags docs/from-old-commands.md"
        )


def _given(flags: Sequence[str], *, workload: str) -> dict[str, Any]:
    """The flags on the command line, without those left at their default."""
    parser = _Parser(add_help=False, allow_abbrev=False)
    add_flags(parser, TrainConfig)
    unset = object()
    namespace = argparse.Namespace(**{f.name: unset for f in dataclasses.fields(TrainConfig)})
    required = {"workload": workload, "examples_dir": "-"}
    first = [f"--{name.replace('_', '-')}={value}" for name, value in required.items()]
    # argparse puts no default over what a namespace holds already.
    parsed = vars(parser.parse_args([*first, *flags], namespace))
    return {
        name: value
        for name, value in parsed.items()
        if value is not unset and required.get(name) != value
    }


def _in_camel_case(value: Any) -> Any:
    if isinstance(value, list):
        return [_in_camel_case(one) for one in value]
    if isinstance(value, dict):
        return {camel_case(key): _in_camel_case(one) for key, one in value.items()}
    return value
