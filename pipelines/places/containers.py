"""Check of the image that `--containers` runs."""

import shutil
import subprocess

from trainer.errors import ConfigError
from trainer.references import SNAPSHOT

INSPECT_TIMEOUT_SECONDS = 60


def check_image(image: str) -> None:
    """Check that an image is on this machine, if Docker is; the service reports missing Docker.

    Raises:
        ConfigError: the image is not there.
    """
    if not image or not shutil.which("docker"):
        return
    done = subprocess.run(
        ["docker", "image", "inspect", "--format", "ok", "--", image],
        check=False,
        capture_output=True,
        text=True,
        timeout=INSPECT_TIMEOUT_SECONDS,
    )
    if "No such image" in done.stderr:
        is_of_project = SNAPSHOT.fullmatch(image.partition(":src-")[2].partition("-")[2])
        build = (
            "`make image PROJECT=FOLDER`, or `trainyard image --project FOLDER --build`"
            if is_of_project
            else "`make image`"
        )
        raise ConfigError(
            f"--containers: the image {image} is not on this machine; build it with {build}, or "
            "name another with --image"
        )
