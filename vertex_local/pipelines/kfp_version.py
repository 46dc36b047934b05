"""Check of the installed kfp, which reads specifications and executes Python steps."""

import sys
from importlib import metadata

TESTED_KFP = "2.17.0"


def problem() -> str:
    """Return the problem of the installed kfp with its remedy; empty if there is none."""
    try:
        version = metadata.version("kfp")
    except metadata.PackageNotFoundError:
        version = ""
    if _series(version) == _series(TESTED_KFP):
        return ""
    state = f"kfp {version} is installed" if version else "kfp is not installed"
    return (
        f"{state}, but pipelines need {TESTED_KFP}; install it, then start this service again: "
        f"{sys.executable} -m pip install kfp=={TESTED_KFP} uv"
    )


def _series(version: str) -> list[str]:
    return version.split(".")[:2]
