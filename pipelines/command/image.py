"""`trainyard image`: the name of the image that belongs to this source."""

import argparse
from typing import Any

from pipelines.package.image import IMAGE_REPOSITORY, source_tag

DESCRIPTION = """\
Prints the name of the image that belongs to this source; `make image` builds it. Its tag is a
digest of all that goes into it: the name changes when the code or a version does, and else never.
"""


def add_image(commands: Any) -> None:
    """Adds `image`."""
    parser = commands.add_parser(
        "image", help="print the name of the image of this source", description=DESCRIPTION
    )
    parser.add_argument(
        "--repository",
        default=IMAGE_REPOSITORY,
        help="as us-central1-docker.pkg.dev/PROJECT/REPOSITORY/trainyard; default: %(default)s",
    )
    parser.add_argument("--accelerator", choices=("cpu", "gpu"), default="cpu", help="%(default)s")
    parser.set_defaults(command=_image)


def _image(arguments: argparse.Namespace) -> int:
    print(f"{arguments.repository}:{source_tag(accelerator=arguments.accelerator)}")
    return 0
