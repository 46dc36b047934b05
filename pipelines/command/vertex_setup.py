"""`trainyard vertex-setup`: prepare a Google Cloud project for runs."""

import argparse
import shlex
import sys

from pipelines.command.actions import describe
from pipelines.exit_codes import FAILED
from pipelines.places.vertex_setup import Setup, SetupError, environment_of, run_steps, steps_of

DESCRIPTION = """\
Prints the gcloud commands that prepare a project for its first run: APIs, a bucket, two
repositories, a service account and its roles. With --yes the commands are run; existing resources
stay unchanged, so this can be repeated. See docs/vertex-setup.md.
"""


def add_vertex_setup(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `vertex-setup`."""
    describe(parser, DESCRIPTION)
    parser.add_argument("--project", required=True, help="id of the Google Cloud project")
    parser.add_argument("--bucket", required=True, help="bucket for the runs' files, without gs://")
    for name, text in (
        ("location", "region of all resources"),
        ("account", "service account that runs run as"),
        ("images", "repository of container images"),
        ("packages", "repository of pipeline packages"),
    ):
        default = getattr(Setup, name)
        parser.add_argument(f"--{name}", default=default, help=f"{text}; default: {default}")
    parser.add_argument(
        "--member", default="", help="member allowed to start runs as the account: user:NAME@DOMAIN"
    )
    parser.add_argument("--yes", action="store_true", help="run the commands")
    parser.set_defaults(command=_vertex_setup)


def _vertex_setup(arguments: argparse.Namespace) -> int:
    setup = Setup(
        project=arguments.project,
        bucket=arguments.bucket,
        location=arguments.location,
        account=arguments.account,
        images=arguments.images,
        packages=arguments.packages,
        member=arguments.member,
    )
    steps = steps_of(setup)
    if arguments.yes:
        try:
            run_steps(steps, report=print)
        except SetupError as error:
            print(f"trainyard: {error}", file=sys.stderr)
            return FAILED
    else:
        for step in steps:
            print(f"# {step.why}\n{shlex.join(step.command)}")
    print("\n# environment for commands with --on vertex")
    for name, value in environment_of(setup).items():
        print(f"export {name}={shlex.quote(value)}")
    print(f"# to run as the account: --set service_account={setup.email}")
    return 0
