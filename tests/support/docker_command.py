"""The `docker` command, for tests."""

import subprocess

TIMEOUT_SECONDS = 120


def docker(*arguments: str) -> str:
    """What a docker command prints; one that fails raises, with what it has said."""
    done = subprocess.run(
        ["docker", *arguments], check=True, capture_output=True, text=True, timeout=TIMEOUT_SECONDS
    )
    return done.stdout
