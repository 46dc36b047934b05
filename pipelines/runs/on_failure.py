"""`--on-failure COMMAND`: a command to run here when an awaited run did not succeed."""

import argparse
import logging
import os
import re
import shlex
import shutil
import signal
import subprocess
from pathlib import Path

from components.shared.run_summary.settings import READABLE_ADDRESS, WEBHOOK, without_path
from components.shared.run_summary.summary import SUMMARY_FILE, Summary
from pipelines.places.target import Target
from trainer import Json
from trainer.errors import ConfigError

logger = logging.getLogger(__name__)

TIMEOUT_SECONDS = 60.0
HELP = (
    "command to run, without a shell, if the run fails, is cancelled or does not pass the metrics; "
    "it gets TRAINYARD_HEADLINE, _RUN, _OUTCOME, _STATE, _VERDICT, _ERROR, _MODEL_VERSION and "
    "_SUMMARY (a file), and summary.json on stdin; killed after a minute. Without --wait and for "
    "schedules use --set on_failure_url=https://…, which receives summary.json"
)


def add_on_failure(parser: argparse.ArgumentParser) -> None:
    """Add the option."""
    parser.add_argument("--on-failure", metavar="COMMAND", default="", help=HELP)


def check_command(text: str, *, is_waiting: bool = True) -> list[str]:
    """Return the words of a command, [] for "".

    Raises:
        ConfigError: the command line does not wait for the run, or there is no such program.
    """
    if not text:
        return []
    if not is_waiting:
        raise ConfigError(
            "--on-failure needs --wait, since the command runs here; without --wait use "
            "--set on_failure_url=https://…"
        )
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise ConfigError(f"--on-failure {text!r}: {error}") from error
    if not words or not shutil.which(words[0]):
        raise ConfigError(f"--on-failure {text!r}: there is no such program; give its path")
    return words


def warn_of_readable_address(job: Json) -> None:
    """Warn that the address of a webhook is stored with a PipelineJob."""
    url = str(job.get("runtimeConfig", {}).get("parameterValues", {}).get(WEBHOOK, ""))
    if re.fullmatch(READABLE_ADDRESS, url):
        logger.warning(
            "the address %s of %s is stored readably in the run and its logs; if it is secret,"
            " give env:NAME or a secret of Secret Manager (docs/runs.md, Alerts)",
            without_path(url),
            WEBHOOK,
        )


def run_command(
    command: list[str],
    summary: Summary,
    *,
    target: Target,
    timeout_seconds: float = TIMEOUT_SECONDS,
) -> str:
    """Run the command if the run ended badly; return the command's own failure, or ""."""
    if not command or summary.is_good or not summary.is_final:
        return ""
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            env={**os.environ, **_facts(summary, target)},
            text=True,
            start_new_session=True,  # a process group, to kill its children with it
        )
    except OSError as error:
        return f"--on-failure: {command[0]} did not start: {error.strerror}"
    try:
        process.communicate(summary.to_json(), timeout=timeout_seconds)
    except subprocess.TimeoutExpired:
        return f"--on-failure: {command[0]} did not exit within {timeout_seconds:g} s"
    finally:
        if process.poll() is None:  # timeout or Ctrl-C
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    if process.returncode:
        return f"--on-failure: {command[0]} exited with code {process.returncode}"
    return ""


def _facts(summary: Summary, target: Target) -> dict[str, str]:
    path: Path | str = target.run_dir(summary.run) / SUMMARY_FILE
    return {
        "TRAINYARD_RUN": summary.run,
        "TRAINYARD_OUTCOME": summary.outcome,
        "TRAINYARD_HEADLINE": summary.headline,
        "TRAINYARD_STATE": summary.state,
        "TRAINYARD_VERDICT": summary.verdict,
        "TRAINYARD_ERROR": summary.error,
        "TRAINYARD_MODEL_VERSION": summary.model_version,
        "TRAINYARD_SUMMARY": str(path) if Path(path).is_file() else "",
    }
