"""Program of a replica with a pythonPackageSpec: install its packages, then run its module.

As in Google's training images, pip installs them with what they require; here into a layer that
only this replica sees. Standard library only: it is sent as text, also into containers.

Usage: python -c THIS PACKAGES_AS_JSON MODULE [ARGUMENT …]
"""

import json
import os
import subprocess
import sys

PIP = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check")


def main() -> None:
    """Become the module's process."""
    packages, module, *arguments = sys.argv[1:]
    if code := subprocess.call([sys.executable, *PIP, *json.loads(packages)]):
        sys.exit(f"the packages {packages} could not be installed (pip: exit code {code})")
    os.execv(sys.executable, [sys.executable, "-m", module, *arguments])


if __name__ == "__main__":
    main()
