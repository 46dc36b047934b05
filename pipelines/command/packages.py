"""`trainyard compile|upload|image`: packages of the pipeline, and the name of their image."""

import argparse
from pathlib import Path

from pipelines.config.built_in import RUNS
from pipelines.dags import PIPELINES
from pipelines.package import registry
from pipelines.package.compile import compile_other, compile_pipeline, write_package
from pipelines.package.digests import with_digests
from pipelines.package.image import (
    IMAGE_REPOSITORY,
    build,
    default_image,
    image_of,
    project_image,
    source_tag,
)
from pipelines.places.target import default_state_dir, local_target
from pipelines.projects.runs import FORMS, find_run
from pipelines.runs.submit import check_source, compile_package, is_package, read_package_of
from pipelines.runs.workload_code import snapshot_of, with_code
from trainer.errors import ConfigError

IMAGE = """\
Prints the name of this source's image, which `make image` builds. Its tag is a digest of everything
in the image: the name changes exactly when the code or a locked version does.

With --project it is the image of a folder with a workload.py: this source's image with the folder's
code and its requirements.txt, whose packages must fit the image's.

  trainyard image --project churn/ --build
"""


def add_compile(compile_: argparse.ArgumentParser) -> None:
    """Add the arguments of `compile`."""
    compile_.add_argument(
        "workloads", nargs="*", metavar="WORKLOAD", help=f"{FORMS}; default: {', '.join(RUNS)}"
    )
    compile_.add_argument(
        "--pipeline",
        action="append",
        default=[],
        choices=tuple(PIPELINES),
        dest="pipelines",
        help="write this pipeline instead of workloads'; may be repeated",
    )
    compile_.add_argument(
        "--output-dir", type=Path, default=Path("dist"), metavar="DIR", help="%(default)s"
    )
    compile_.add_argument(
        "--image", help="container image that Vertex AI can pull; default: a digest of the source"
    )
    compile_.set_defaults(command=_compile)


def add_upload(upload: argparse.ArgumentParser) -> None:
    """Add the arguments of `upload`."""
    upload.description = f"{upload.description}; submit accepts its address"
    upload.add_argument("source", metavar="PACKAGE", help="a workload or a package file")
    upload.add_argument("--repository", required=True, metavar="URL", help=registry.FORM)
    upload.add_argument(
        "--tag", action="append", default=[], dest="tags", help="moved to this version; repeatable"
    )
    upload.add_argument("--image", help="container image, if the package names none yet")
    upload.set_defaults(command=_upload)


def add_image(image: argparse.ArgumentParser) -> None:
    """Add the arguments of `image`."""
    image.description = IMAGE
    image.add_argument(
        "--repository",
        default=IMAGE_REPOSITORY,
        help="e.g. us-central1-docker.pkg.dev/PROJECT/REPOSITORY/trainyard; default: %(default)s",
    )
    image.add_argument("--accelerator", choices=("cpu", "gpu"), default="cpu", help="%(default)s")
    image.add_argument("--project", metavar="DIR", help="a folder with a workload.py")
    image.add_argument(
        "--build", action="store_true", help="build the image of --project, with Docker"
    )
    image.set_defaults(command=_image)


def _compile(arguments: argparse.Namespace) -> None:
    for name in arguments.pipelines:
        text = compile_other(arguments.image or default_image(), name=name)
        print(write_package(arguments.output_dir, name=name, text=text))
    for source in arguments.workloads or ([] if arguments.pipelines else RUNS):
        config = with_code(find_run(source), local_target(default_state_dir()), uses_image=True)
        text = compile_pipeline(arguments.image or image_of(config.workload), config=config)
        print(write_package(arguments.output_dir, name=config.name, text=text))


def _upload(arguments: argparse.Namespace) -> None:
    source, image = arguments.source, arguments.image
    check_source(source)
    if is_package(source):
        package = read_package_of(source, image=image)
    else:
        config = with_code(find_run(source), local_target(default_state_dir()), uses_image=True)
        package = compile_package(source, workload=config.workload, image=image)
    uploaded = registry.upload(
        with_digests(package), repository=arguments.repository, tags=arguments.tags
    )
    print(f"{uploaded.name} {uploaded.version}")
    for address in uploaded.addresses:
        print(address)


def _image(arguments: argparse.Namespace) -> None:
    base = f"{arguments.repository}:{source_tag(accelerator=arguments.accelerator)}"
    if not arguments.project:
        if arguments.build:
            raise ConfigError("--build needs --project; `make image` builds this source's image")
        print(base)
        return
    config = find_run(arguments.project)
    if not Path(config.workload).is_absolute():
        raise ConfigError(f"--project {arguments.project} is not a folder with a workload.py")
    snapshot = snapshot_of(config, default_state_dir())
    image = project_image(
        snapshot.reference, repository=arguments.repository, accelerator=arguments.accelerator
    )
    if arguments.build:
        build(snapshot, base=base, image=image)
    print(image)
