"""The `docker` command, for tests."""

import subprocess

TIMEOUT_SECONDS = 120


def docker(*arguments: str) -> str:
    """Return the output of a docker command; a failure raises with its output."""
    done = subprocess.run(
        ["docker", *arguments], check=True, capture_output=True, text=True, timeout=TIMEOUT_SECONDS
    )
    return done.stdout
