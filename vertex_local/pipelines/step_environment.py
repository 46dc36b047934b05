"""Python environments of steps: taken from the store, or built first."""

import shlex
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from vertex_local.pipelines.run_state import TaskError
from vertex_local.pipelines.step_image import StepImage
from vertex_local.processes.environments import store
from vertex_local.processes.environments.commands import Step

LOCK_POLL_SECONDS = 0.1
NOTHING = "true"  # the rest of a command, whose beginning is the installation


class PackageError(TaskError):
    """Packages that cannot be installed."""


@dataclass(frozen=True, kw_only=True)
class Provider:
    """Source of a task's environment.

    `run` runs a command as a step, or raises a TaskError.
    """

    task: str
    image: StepImage
    run: Callable[[list[str]], None]
    must_stop: Callable[[], bool]
    log: Callable[[str], None]

    def environment(self, step: Step) -> Path:
        """Return the prefix of an environment with what a step has of its image and installs.

        That of the service's own image is the service's, unless the step needs other packages.

        Raises:
            TaskError: It cannot be built; the message names the package.
        """
        image = self.image
        if image.is_own and not step.needs_packages:
            return Path(sys.prefix)
        if image.difference:
            self.log(image.difference)
        with suppress(PackageError):  # the index may have no wheel of an old framework
            if image.package:
                framework = f"python3 -m pip install --only-binary :all: '{image.package}'"
                return self._stored(step, f"{framework} && {step.script or NOTHING}")
        return self._stored(step, step.script)

    def _stored(self, step: Step, script: str) -> Path:
        recipe = store.Recipe(
            python=store.interpreter(self.image.minor),
            script=script,
            has_kfp=step.has_kfp or not (self.image.minor or self.image.package),
        )
        try:
            with store.building(recipe.prefix, wait=self._wait) as is_new:
                if is_new:
                    self.log(f"building the environment of {self.task}")
                    store.create(recipe)
                    self._install(recipe)
        except OSError as error:
            raise TaskError(f"the environment of {self.task} cannot be stored: {error}") from error
        return recipe.prefix

    def _install(self, recipe: store.Recipe) -> None:
        """Run the script, in which pip has the user's settings (pip.conf, `PIP_…`)."""
        python = shlex.quote(str(recipe.prefix / "bin" / "python"))
        script = recipe.script.replace("python3 -m pip", f"{python} -I -m pip")
        try:
            self.run(["sh", "-c", script, NOTHING])
        except TaskError as error:
            self._check_stop()
            raise PackageError(
                f"the packages of {self.task} cannot be installed, and no stored environment has "
                "them. Give pip access to a package index once, or change packages_to_install of "
                f"the component. {error}"
            ) from None

    def _wait(self) -> None:
        """Wait a little for another step that builds the same environment."""
        self._check_stop()
        time.sleep(LOCK_POLL_SECONDS)

    def _check_stop(self) -> None:
        if self.must_stop():
            raise TaskError("the run was cancelled")
