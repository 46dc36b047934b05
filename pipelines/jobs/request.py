"""The request that creates a training job.

It is the request that the pipeline's training step sends for the same configuration.
"""

import argparse
import dataclasses
import re
from collections.abc import Sequence
from typing import Any, NoReturn

from components.plan_training.plan import plan_training
from components.plan_training.spellings.vertex import camel_case
from components.shared.text.json_object import present
from pipelines.config.run_config import RunConfig
from pipelines.config.settings import MODEL_GROUP, trainer_settings
from trainer import Json
from trainer.config.flags import add_flags
from trainer.config.model_settings import split_model_flags
from trainer.config.train_config import TrainConfig
from trainer.errors import ConfigError, did_you_mean


def job_request(
    config: RunConfig,
    *,
    name: str,
    image: str,
    examples_uri: str,
    output_uri: str,
    service_account: str = "",
) -> Json:
    """Return the body of `POST …/customJobs`: a CustomJob of Vertex AI's REST API.

    https://cloud.google.com/vertex-ai/docs/reference/rest/v1/projects.locations.customJobs/create
    """
    plan = plan_training(
        config.workload,
        cluster=dataclasses.replace(config.cluster, image=image),
        train=config.train,
        image=image,
        examples_uri=examples_uri,
    )
    scheduling: Json = {
        "timeout": plan.timeout,
        "restart_job_on_worker_restart": plan.restarts_whole_job,
        "strategy": plan.scheduling_strategy,
    }
    if plan.disables_retries:
        scheduling["disable_retries"] = True
    job_spec = present(
        {
            "worker_pool_specs": plan.worker_pool_specs,
            "scheduling": scheduling,
            "base_output_directory": {"output_uri_prefix": output_uri},
            "service_account": service_account,
            "persistent_resource_id": plan.persistent_resource,
        }
    )
    request: Json = _in_camel_case({"display_name": name, "job_spec": job_spec})
    return request


def with_flags(config: RunConfig, flags: Sequence[str]) -> RunConfig:
    """Return the configuration with the trainer's flags after `--` applied.

    Raises:
        ConfigError: a flag is unknown, has an invalid value, or is set by the job itself.
    """
    settings = _parse_flags(flags, workload=config.workload)
    of_model = (name for name in settings if name.startswith(f"{MODEL_GROUP}."))
    allowed = {*trainer_settings(), *of_model}
    if planned := sorted(set(settings) - allowed):
        raise ConfigError(
            f"--{planned[0].replace('_', '-')} after --: the job sets this flag; give WORKLOAD, "
            "--examples-dir and --cluster FILE, which has the strategy and the GPUs, before the --;"
            " --name decides the output folder"
        )
    other = {"steps": "epochs", "epochs": "steps"}
    dropped = {other[name] for name in settings if name in other} - set(settings)
    train = {name: value for name, value in config.train.items() if name not in dropped}
    try:
        return dataclasses.replace(config, train={**train, **settings})
    except ValueError as error:
        raise ConfigError(f"flags after --: {error}") from error


class _JobParser(argparse.ArgumentParser):
    """Argument parser that raises ConfigError instead of exiting."""

    def error(self, message: str) -> NoReturn:
        typed = re.search(r"(--[\w-]+)", message)
        hint = did_you_mean(typed and typed[1], self._option_string_actions)
        raise ConfigError(
            f"flags after --: {message};{hint} python -m trainer.task --help lists the flags, "
            "docs/from-old-commands.md the old ones"
        )


def _parse_flags(flags: Sequence[str], *, workload: str) -> dict[str, Any]:
    """Return the values of the given flags, without those left at their default."""
    parser = _JobParser(add_help=False, allow_abbrev=False)
    add_flags(parser, TrainConfig)
    unset = object()
    namespace = argparse.Namespace(**{f.name: unset for f in dataclasses.fields(TrainConfig)})
    required = {"workload": workload, "examples_dir": "-"}
    first = [f"--{name.replace('_', '-')}={value}" for name, value in required.items()]
    # argparse does not overwrite attributes of a given namespace with defaults.
    train_flags, model_settings = split_model_flags(flags)
    parsed = vars(parser.parse_args([*first, *train_flags], namespace))
    settings = {
        name: value
        for name, value in parsed.items()
        if value is not unset and required.get(name) != value
    }
    return settings | {f"{MODEL_GROUP}.{name}": value for name, value in model_settings.items()}


def _in_camel_case(value: Any) -> Any:
    if isinstance(value, list):
        return [_in_camel_case(item) for item in value]
    if isinstance(value, dict):
        return {camel_case(key): _in_camel_case(item) for key, item in value.items()}
    return value
