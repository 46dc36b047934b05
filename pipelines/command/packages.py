"""`trainyard compile|upload|image`: packages of the pipeline, and the name of their image."""

import argparse
from pathlib import Path
from typing import Any

from pipelines.config import RUNS
from pipelines.package import registry
from pipelines.package.compile import write_packages
from pipelines.package.image import IMAGE_REPOSITORY, default_image, source_tag
from pipelines.package.spec import check_images
from pipelines.runs.submit import package_of

IMAGE = """\
Prints the name of this source's image, which `make image` builds. Its tag is a digest of everything
in the image: the name changes exactly when the code or a locked version does.
"""


def add_package_commands(commands: Any) -> None:
    """Add `compile`, `upload` and `image`."""
    text = "write a package for each workload: the pipeline with the workload's defaults"
    compile_ = commands.add_parser("compile", help=text, description=text)
    compile_.add_argument(
        "workloads", nargs="*", metavar="WORKLOAD", help=f"default: {', '.join(RUNS)}"
    )
    compile_.add_argument(
        "--output-dir", type=Path, default=Path("dist"), metavar="DIR", help="%(default)s"
    )
    compile_.add_argument(
        "--image", help="container image that Vertex AI can pull; default: a digest of the source"
    )
    compile_.set_defaults(command=_compile)

    text = "upload a package to an Artifact Registry repository of the KFP format"
    upload = commands.add_parser(
        "upload", help=text, description=f"{text}; submit accepts its address"
    )
    upload.add_argument("source", metavar="PACKAGE", help="a workload or a package file")
    upload.add_argument("--repository", required=True, metavar="URL", help=registry.FORM)
    upload.add_argument(
        "--tag", action="append", default=[], dest="tags", help="moved to this version; repeatable"
    )
    upload.add_argument("--image", help="container image, if the package names none yet")
    upload.set_defaults(command=_upload)

    text = "print the name of this source's image"
    image = commands.add_parser("image", help=text, description=IMAGE)
    image.add_argument(
        "--repository",
        default=IMAGE_REPOSITORY,
        help="e.g. us-central1-docker.pkg.dev/PROJECT/REPOSITORY/trainyard; default: %(default)s",
    )
    image.add_argument("--accelerator", choices=("cpu", "gpu"), default="cpu", help="%(default)s")
    image.set_defaults(command=_image)


def _compile(arguments: argparse.Namespace) -> int:
    for path in write_packages(
        arguments.output_dir,
        image=arguments.image or default_image(),
        workloads=tuple(arguments.workloads),
    ):
        print(path)
    return 0


def _upload(arguments: argparse.Namespace) -> int:
    package = package_of(arguments.source, image=arguments.image)
    check_images(package)
    uploaded = registry.upload(package, repository=arguments.repository, tags=arguments.tags)
    print(f"{uploaded.name} {uploaded.version}")
    for address in uploaded.addresses:
        print(address)
    return 0


def _image(arguments: argparse.Namespace) -> int:
    print(f"{arguments.repository}:{source_tag(accelerator=arguments.accelerator)}")
    return 0
