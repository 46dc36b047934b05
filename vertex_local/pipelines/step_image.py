"""Images of steps, which are not used without containers: the Python and packages that stand in."""

import os
import re
from dataclasses import dataclass
from functools import cache
from importlib import metadata

# Docker's own image, or a copy of it in another registry.
PYTHON = re.compile(r"(?:.+/)?python:3\.(?P<minor>\d+)[^/]*")
# https://cloud.google.com/vertex-ai/docs/training/pre-built-containers, and …/docs/predictions/…
PREBUILT = re.compile(
    r"[^/]+/(?:vertex-ai|cloud-aiplatform)/(?:training|prediction)/"
    r"(?P<framework>tf|pytorch|sklearn|scikit-learn|xgboost)2?-[a-z]+\.(?P<version>\d+-\d+)"
    r"(?:\.py3(?P<minor>\d+))?(?::.*)?"
)
PACKAGES = {"tf": "tensorflow", "pytorch": "torch", "sklearn": "scikit-learn"}
SERVICE_PACKAGES = "VERTEX_LOCAL_SERVICE_PACKAGES"  # variable of the service and its processes
# Installed packages declare by entry points of this group which images have them, by the image's
# name without registry and tag.
OWN_IMAGES = "vertex_local.own_images"
MISSING_MODULE = re.compile(r"No module named '([\w.]+)'")


@dataclass(frozen=True, kw_only=True)
class StepImage:
    """Image of a step.

    Attributes:
        minor: Its Python is 3.MINOR; empty if that is unknown.
        package: The requirement of its framework; empty if that is unknown, or it has none.
        is_own: Whether it has the packages of this service.
    """

    name: str
    minor: str = ""
    package: str = ""
    is_own: bool = False

    @classmethod
    def of(cls, name: str) -> "StepImage":
        """Return the image of a name; all are the service's own if its user says so."""
        if os.environ.get(SERVICE_PACKAGES):
            return cls(name=name, is_own=True)
        if match := PYTHON.fullmatch(name):
            return cls(name=name, minor=match["minor"])
        if match := PREBUILT.fullmatch(name):
            framework = PACKAGES.get(match["framework"], match["framework"])
            package = f"{framework}=={match['version'].replace('-', '.')}.*"
            return cls(name=name, minor=match["minor"] or "", package=package)
        title = re.split("[:@]", name.rpartition("/")[2])[0]
        return cls(name=name, is_own=title in _own_images())

    @property
    def difference(self) -> str:
        """Sentence on what of the image a step does not have; empty if that is nothing."""
        if self.package:
            return (
                f"Of the image {self.name} a step has only {self.package} here, if the package "
                "index has a wheel for this Python."
            )
        if self.minor or self.is_own:
            return ""
        return (
            f"The image {self.name} is not used (`serve --containers` would), so its packages are "
            "not here."
        )

    def explained(self, error: str) -> str:
        """Return the error of a failed step with the difference, and how to add a package."""
        missing = MISSING_MODULE.findall(error)
        lines = [error, self.difference]
        if missing and not self.is_own:
            lines.append(f"Add the package of {missing[-1]!r} to packages_to_install.")
        return "\n".join(filter(None, lines))


@cache
def _own_images() -> set[str]:
    return set(metadata.entry_points(group=OWN_IMAGES).names)
