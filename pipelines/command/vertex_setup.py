"""`trainyard vertex-setup`: what a Google Cloud project needs before the first run."""

import argparse
import shlex
import sys
from typing import Any

from pipelines.vertex_setup import Setup, SetupError, environment_of, run_steps, steps_of

EXIT_FAILED = 1
DESCRIPTION = """\
Prints the gcloud commands that a project needs once before its first run: APIs, a bucket, two
repositories, an account and its roles. With --yes it carries them out; what is there already stays
as it is, so it can be repeated. docs/vertex-setup.md tells the rest.
"""


def add_vertex_setup(commands: Any) -> None:
    """Adds `vertex-setup`."""
    parser = commands.add_parser(
        "vertex-setup",
        help="make a project ready for runs: APIs, bucket, repositories, account",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--project", required=True, help="id of the Google Cloud project")
    parser.add_argument("--bucket", required=True, help="of the runs' files; without gs://")
    for name, text in (
        ("location", "region of everything"),
        ("account", "service account that runs run as"),
        ("images", "repository of container images"),
        ("packages", "repository of compiled pipelines"),
    ):
        default = getattr(Setup, name)
        parser.add_argument(f"--{name}", default=default, help=f"{text}; default: {default}")
    parser.add_argument(
        "--member", default="", help="who may start runs as the account: user:NAME@DOMAIN"
    )
    parser.add_argument("--yes", action="store_true", help="carry the commands out")
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
            run_steps(steps, say=print)
        except SetupError as error:
            print(f"trainyard: {error}", file=sys.stderr)
            return EXIT_FAILED
    else:
        for step in steps:
            print(f"# {step.why}\n{shlex.join(step.command)}")
    print("\n# for the commands with --on vertex")
    for name, value in environment_of(setup).items():
        print(f"export {name}={shlex.quote(value)}")
    print(f"# run as the account: --set service_account={setup.email}")
    return 0
