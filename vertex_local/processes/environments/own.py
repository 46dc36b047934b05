"""The service's own environment: whether its kfp is the one that the service was written for."""

import sys
from importlib import metadata

TESTED_KFP = "2.17.0"


def problem() -> str:
    """Return what is wrong with the installed kfp and how to mend it; nothing if it will do."""
    try:
        version = metadata.version("kfp")
    except metadata.PackageNotFoundError:
        version = ""
    if _series(version) == _series(TESTED_KFP):
        return ""
    found = f"kfp {version} is installed" if version else "kfp is not installed"
    return (
        f"{found} where this service needs {TESTED_KFP}, so no pipeline would run; mend it with: "
        f"{sys.executable} -m pip install kfp=={TESTED_KFP}"
    )


def _series(version: str) -> list[str]:
    return version.split(".")[:2]
