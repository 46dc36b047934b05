"""`trainyard jobs submit`: a training job without a pipeline."""

import argparse
import dataclasses
import logging
import re
import sys
from pathlib import Path
from typing import Any

from components.vertex.api import VertexApi, connect
from pipelines.command.clusters import warn_of_gpus
from pipelines.command.jobs import EXIT_CODES, add_timeout, follow, tell_end
from pipelines.command.models_endpoints import add_action, print_json
from pipelines.command.target_options import service_of, target_of
from pipelines.config import RUNS, RunConfig, named_run, read_cluster
from pipelines.jobs import lifecycle as jobs
from pipelines.jobs.cores import warn_of_cores
from pipelines.jobs.examples import examples_of
from pipelines.jobs.request import job_request, with_flags
from pipelines.package.image import default_image
from pipelines.resources import short_name
from pipelines.runs.execute import new_run_name
from pipelines.target.containers import add_containers
from pipelines.target.local_service import LocalService
from pipelines.target.places import Target
from trainer.json_types import Json

logger = logging.getLogger(__name__)

DESCRIPTION = f"""\
Trains a workload as one custom job, the same that the pipeline would submit. Flags after -- are the
trainer's (python -m trainer.task --help); what they do not say is as in `trainyard run WORKLOAD`.

  trainyard jobs submit mnist --cluster configs/clusters/mnist_parameter_server.yaml \\
      --follow -- --epochs 1

Without --wait or --follow the service on this machine stays, and the job in it. Ctrl-C while
waiting cancels the job. {EXIT_CODES}

The model of a job that succeeded becomes a version: trainyard models upload JOB --name mnist
"""


def add_submit(actions: Any) -> None:
    """Adds `jobs submit`."""
    submit = add_action(actions, "submit", _submit, "train a workload, without a pipeline")
    submit.usage = "trainyard jobs submit WORKLOAD [options] [-- FLAGS OF THE TRAINER]"
    submit.description = DESCRIPTION
    submit.formatter_class = argparse.RawDescriptionHelpFormatter
    submit.add_argument("workload", metavar="WORKLOAD", help=f"one of: {', '.join(RUNS)}")
    submit.add_argument("--cluster", type=Path, metavar="FILE", help="cluster file")
    submit.add_argument(
        "--examples-dir",
        metavar="DIR",
        help="prepared examples; default, on this machine: prepared once and kept",
    )
    submit.add_argument(
        "--name",
        type=_name,
        help="of the job and its output folder; a job of the same name goes on from there; "
        "default: WORKLOAD and the time",
    )
    add_timeout(submit, "end the job after so long, as 90, 30m or 2h; default: the cluster file's")
    submit.add_argument("--image", help="container image; default: named by a digest of the source")
    submit.add_argument("--service-account", help="Vertex AI: run as this service account")
    add_containers(submit)
    submit.add_argument("--data-dir", metavar="DIR", help="folder with raw data")
    submit.add_argument(
        "--pin",
        action="store_true",
        help="for measurements on this machine: a core of its own for each replica that computes",
    )
    ending = submit.add_mutually_exclusive_group()
    ending.add_argument("--wait", action="store_true", help="until the job has ended")
    ending.add_argument("--follow", action="store_true", help="the same, and show its log")
    ending.add_argument("--dry-run", action="store_true", help="only print the request, as JSON")
    submit.set_defaults(flags=[])


def _submit(arguments: argparse.Namespace) -> int:
    config, target = _config(arguments), target_of(arguments)
    examples = examples_of(config, target, given=arguments.examples_dir)
    name = arguments.name or new_run_name(config.workload)
    image = arguments.image or default_image()
    request = job_request(
        config,
        name=name,
        image=image,
        examples_uri=examples.uri,
        output_uri=f"{target.pipeline_root}/{name}",
        service_account=arguments.service_account or "",
        is_pinned=arguments.pin,
    )
    if arguments.dry_run:
        print(f"POST /v1/{target.parent}/customJobs", file=sys.stderr)
        return print_json(request)
    with service_of(arguments, target, image=image) as service:
        if service:
            warn_of_gpus(config.cluster)
            warn_of_cores(config.cluster)
        examples.prepare()
        api = connect(target.project, target.location)
        job_id = short_name(jobs.create_job(api, request)["name"])
        print(f"job {job_id} ({name}): {config.cluster}, output in {_output_of(request)}")
        if arguments.wait or arguments.follow:
            return _await(api, job_id, is_followed=arguments.follow)
        _leave(job_id, service, target)
    return 0


def _name(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}", text, re.ASCII):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not allowed; use at most 128 letters, digits, '-', '_' and '.'"
        )
    return text


def _config(arguments: argparse.Namespace) -> RunConfig:
    config = named_run(arguments.workload)
    if arguments.cluster:
        config = dataclasses.replace(config, cluster=read_cluster(arguments.cluster))
    if arguments.timeout:
        cluster = dataclasses.replace(config.cluster, timeout_seconds=arguments.timeout)
        config = dataclasses.replace(config, cluster=cluster)
    return with_flags(config, arguments.flags)


def _await(api: VertexApi, job_id: str, *, is_followed: bool) -> int:
    """The exit code at the job's end; a job is cancelled when whoever waits for it goes away."""
    try:
        job = follow(api, job_id) if is_followed else jobs.wait_for_job(api, job_id)
    except KeyboardInterrupt:
        jobs.JOB.cancel(api, job_id)
        print(f"asked job {job_id} to end", file=sys.stderr)
        raise
    return tell_end(api, job)


def _leave(job_id: str, service: LocalService | None, target: Target) -> None:
    print(f"trainyard jobs logs {job_id} --follow   # what it does")
    if service:
        service.keep()
        root = target.state_dir / "vertex"
        print(f"vertex-local stop --root {root}   # ends the service, and jobs that still run")


def _output_of(request: Json) -> str:
    return str(request["jobSpec"]["baseOutputDirectory"]["outputUriPrefix"])
