"""The request that creates a training job.

It is the request that the pipeline's training step sends for the same configuration.
"""

import argparse
import re
from collections.abc import Sequence
from typing import Any, NoReturn

from components.plan_training.findings import camel_case
from components.plan_training.plan import plan_training
from components.shared.text.json_object import present
from pipelines.config.run_config import PLANNED_FLAGS, RunConfig
from pipelines.config.settings import checked, try_texts
from trainer import Json
from trainer.config.flags import add_flags
from trainer.config.model_settings import split_model_flags
from trainer.config.settings import as_flags, flag_name
from trainer.config.train_config import TrainConfig
from trainer.errors import ConfigError, did_you_mean


def job_request(
    config: RunConfig,
    *,
    name: str,
    image: str,
    examples_uri: str,
    output_uri: str,
) -> Json:
    """Return the body of `POST …/customJobs`: a CustomJob of Vertex AI's REST API.

    https://cloud.google.com/vertex-ai/docs/reference/rest/v1/projects.locations.customJobs/create
    """
    plan = plan_training(
        config.workload,
        cluster=config.cluster.replace(image=image),
        train=config.train.given(),
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
            "service_account": config.service_account,
            "network": config.network,
            "tensorboard": config.tensorboard,
            "persistent_resource_id": plan.persistent_resource,
        }
    )
    request = _in_camel_case({"display_name": name, "job_spec": job_spec})
    return present({**request, "labels": config.labels})


def with_flags(config: RunConfig, flags: Sequence[str]) -> RunConfig:
    """Return the configuration with the trainer's flags after `--` applied.

    Raises:
        ConfigError: a flag is unknown, has an invalid value, or is set by the job itself.
    """
    parser = _JobParser(add_help=False, allow_abbrev=False)
    add_flags(parser, TrainConfig, leave_out=["model_settings"])
    train_flags, model_settings = split_model_flags(flags)
    required = {"workload": config.workload, "examples_dir": "-"}
    first = [f"{flag_name(name)}={value}" for name, value in required.items()]
    given = vars(parser.parse_args([*first, *train_flags]))
    if planned := [n for n in PLANNED_FLAGS if n in given and given[n] != required.get(n)]:
        raise ConfigError(
            f"{flag_name(planned[0])} after --: the job sets this flag; give WORKLOAD, "
            "--examples-dir and --cluster FILE, which has the strategy and the GPUs, before the --;"
            " --name decides the output folder"
        )
    own = {f"train.{name}": text for name, text in given.items() if name not in PLANNED_FLAGS}
    texts = {**own, **model_settings}.items()
    config, errors = try_texts(config, [("flags after --", key, text) for key, text in texts])
    return checked(config, [ConfigError(as_flags(str(error), "train")) for error in errors])


class _JobParser(argparse.ArgumentParser):
    """Argument parser that raises ConfigError instead of exiting."""

    def error(self, message: str) -> NoReturn:
        typed = re.search(r"(--[\w-]+)", message)
        hint = did_you_mean(typed and typed[1], self._option_string_actions)
        raise ConfigError(
            f"flags after --: {message};{hint} python -m trainer.task --help lists the flags, "
            "docs/from-old-commands.md the old ones"
        )


def _in_camel_case(value: Any) -> Any:
    if isinstance(value, list):
        return [_in_camel_case(item) for item in value]
    if isinstance(value, dict):
        return {camel_case(key): _in_camel_case(item) for key, item in value.items()}
    return value
