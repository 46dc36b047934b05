"""`trainyard jobs submit`: a training job without a pipeline."""

import argparse
import re
import sys
from functools import partial
from pathlib import Path

from components.shared.vertex.api import VertexApi
from components.shared.vertex.creations import create_labelled
from pipelines.command.actions import add_set, describe, print_json
from pipelines.command.output import add_output, with_result
from pipelines.command.target_options import add_containers, add_target, service_of, target_of
from pipelines.command.training.jobs import EXIT_CODES, add_timeout, print_job_outcome
from pipelines.config.cluster_files import warn_of_local_limits
from pipelines.config.run_config import RunConfig
from pipelines.jobs.examples import Examples, examples_of
from pipelines.jobs.log import job_log_lines
from pipelines.jobs.request import job_request, with_flags
from pipelines.package.digests import by_digest
from pipelines.package.image import check_holds, image_of
from pipelines.places.target import Target
from pipelines.projects.runs import FORMS, find_run
from pipelines.resources.kinds import JOB
from pipelines.resources.names import short_name
from pipelines.runs.output.hints import command, stop_command
from pipelines.runs.request import new_run_name
from pipelines.runs.submit import configured
from pipelines.runs.workload_code import with_code

DESCRIPTION = f"""\
Trains a workload as one custom job, the same that the pipeline submits. Flags after -- are passed
to the trainer (python -m trainer.task --help); defaults are as in `trainyard run WORKLOAD`.

  trainyard jobs submit mnist --cluster configs/clusters/mnist_parameter_server.yaml \\
      --follow -- --epochs 1

Without --wait or --follow the job and the service on this machine continue in the background.
Ctrl-C while waiting cancels the job. {EXIT_CODES}

To upload the model of a job that succeeded: trainyard models upload JOB --name mnist
"""


def add_submit(submit: argparse.ArgumentParser) -> None:
    """Add the arguments of `jobs submit`."""
    add_target(submit)
    submit.usage = "trainyard jobs submit WORKLOAD [options] [-- FLAGS OF THE TRAINER]"
    describe(submit, DESCRIPTION)
    submit.add_argument("workload", metavar="WORKLOAD", help=FORMS)
    submit.add_argument(
        "--name",
        type=job_name,
        help="name of the job and its output folder; a job with the same name resumes from that "
        "folder; default: WORKLOAD and the time",
    )
    add_set(submit)
    add_timeout(submit, "time limit of the job, e.g. 90, 30m or 2h; default: the cluster file's")
    add_job_options(submit)
    ending = submit.add_mutually_exclusive_group()
    ending.add_argument("--wait", action="store_true", help="wait until the job has ended")
    ending.add_argument("--follow", action="store_true", help="wait and print the job's log")
    ending.add_argument("--dry-run", action="store_true", help="only print the request, as JSON")
    add_output(submit)
    submit.set_defaults(command=partial(with_result, _submit), flags=[])


def add_job_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that `jobs submit` and `tune` share."""
    parser.add_argument("--cluster", type=Path, metavar="FILE", help="cluster file")
    parser.add_argument(
        "--examples-dir",
        metavar="DIR",
        help="prepared examples; default on this machine: prepared once and kept",
    )
    advanced = parser.add_argument_group("advanced")
    advanced.add_argument(
        "--image",
        help="container image; default: the cluster file's, or named by a digest of the source",
    )
    add_containers(advanced)
    advanced.add_argument("--data-dir", metavar="DIR", help="folder with raw data")


def job_to_send(
    arguments: argparse.Namespace, config: RunConfig, prefix: str = ""
) -> tuple[RunConfig, Target, Examples, dict[str, str]]:
    """Return what the options of `add_job_options` say, and the arguments of `job_request`.

    `prefix` is of the name of a job that is given none.
    """
    target = target_of(arguments)
    uses_image = arguments.on == "vertex" or arguments.containers
    config = with_code(config, target, uses_image=uses_image)
    examples = examples_of(config, target, examples_dir=arguments.examples_dir)
    image = arguments.image or config.cluster.image or image_of(config.workload)
    check_holds(image, config.workload)
    name = arguments.name or new_run_name(prefix + config.name)
    job = {
        "name": name,
        "image": by_digest(image) if arguments.on == "vertex" else image,
        "examples_uri": examples.uri,
        "output_uri": f"{target.pipeline_root}/{name}",
    }
    return config, target, examples, job


def _submit(arguments: argparse.Namespace) -> int:
    config, target, examples, job = job_to_send(arguments, _config(arguments))
    request, name = job_request(config, **job), job["name"]
    if arguments.dry_run:
        print(f"POST /v1/{target.parent}/customJobs", file=sys.stderr)
        arguments.result = request, name
        return 0 if arguments.json or arguments.quiet else print_json(request)
    with service_of(arguments, target, makes_state=True, image=job["image"]) as service:
        if service:
            warn_of_local_limits(config.cluster)
        examples.prepare()
        api = target.connect()
        job_id = short_name(create_labelled(api, JOB.collection, request)["name"])
        output_uri = request["jobSpec"]["baseOutputDirectory"]["outputUriPrefix"]
        arguments.result = {"job": job_id, "name": name, "output": output_uri}, job_id
        print(f"job {job_id} ({name}): {config.cluster}, output in {output_uri}")
        if arguments.wait or arguments.follow:
            return _wait(api, job_id, is_followed=arguments.follow)
        show_log = command(f"trainyard jobs logs {job_id} --follow", target)
        print(f"{show_log}   # show its log")
        if service:
            service.keep()
            print(f"{stop_command(target)}   # stop the service and its jobs")
    return 0


def job_name(text: str) -> str:
    """Return the name of a job, which is part of a path."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}", text, re.ASCII):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not allowed; use at most 128 letters, digits, '-', '_' and '.'"
        )
    return text


def _config(arguments: argparse.Namespace) -> RunConfig:
    config = find_run(arguments.workload)
    config = configured(config, settings=arguments.settings, cluster=arguments.cluster)
    if arguments.timeout:
        cluster = config.cluster.replace(timeout_seconds=arguments.timeout)
        config = config.replace(cluster=cluster)
    return with_flags(config, arguments.flags)


def _wait(api: VertexApi, job_id: str, *, is_followed: bool) -> int:
    try:
        if is_followed:
            for line in job_log_lines(api, job_id, is_followed=True):
                print(line, flush=True)
        job = JOB.wait(api, job_id)
    except KeyboardInterrupt:
        JOB.cancel(api, job_id)
        print(f"requested cancellation of job {job_id}", file=sys.stderr)
        raise
    return print_job_outcome(api, job)
