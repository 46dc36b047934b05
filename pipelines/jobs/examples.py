"""The examples that a training job reads: given, or prepared once on this machine."""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from components.prepare_examples.publish import MANIFEST
from components.prepare_examples.raw_data.sources import source_of
from pipelines.config import RunConfig
from pipelines.target.places import Target
from trainer import paths
from trainer.config.settings import ConfigError

PREPARE = "python -m components.prepare_examples"
PREPARE_TIMEOUT_SECONDS = 3600


@dataclass(frozen=True)
class Examples:
    """A folder of examples, and the command that makes it where it is not there."""

    uri: str
    command: tuple[str, ...] = ()

    def prepare(self) -> None:
        """Runs the command, if there is one.

        Raises:
            ConfigError: it has failed; it has said why on stderr.
        """
        if not self.command:
            return
        code = subprocess.run(
            [sys.executable, "-m", *self.command],
            check=False,
            stdout=sys.stderr,
            timeout=PREPARE_TIMEOUT_SECONDS,
        ).returncode
        if code:
            raise ConfigError(f"the examples were not prepared (exit code {code}): see above")


def examples_of(config: RunConfig, target: Target, *, given: str | None) -> Examples:
    """The examples of a job: `given`, or else a folder of the local state for each workload.

    Raises:
        ConfigError: there are none, and they cannot be made here; says how to.
    """
    is_remote = paths.is_in_bucket(target.pipeline_root)
    if given is None:
        return _prepared_here(config, target, is_remote=is_remote)
    if is_remote or paths.is_bucket_uri(given):
        return _in_a_bucket(given, is_remote=is_remote)
    folder = Path(given).absolute()
    if not (folder / MANIFEST).is_file():
        raise ConfigError(
            f"--examples-dir {folder} holds no {MANIFEST}; make it with: {PREPARE} "
            f"--workload {config.workload} --output-dir {folder}"
        )
    return Examples(str(folder))


def _prepared_here(config: RunConfig, target: Target, *, is_remote: bool) -> Examples:
    if is_remote:
        raise ConfigError(
            "a job on Vertex AI needs --examples-dir gs://BUCKET/FOLDER: take the folder that the "
            f"prepare-examples step of a `trainyard run {config.workload}` has written, or make "
            f"one with {PREPARE} --workload {config.workload} --output-dir FOLDER, and copy it"
        )
    folder = target.state_dir / "examples" / config.workload
    if _are_defaults(folder, config.workload):
        return Examples(str(folder))
    data_dir = Path(target.data_root) / config.workload
    return Examples(
        str(folder),
        (
            "components.prepare_examples",
            f"--workload={config.workload}",
            f"--data-dir={data_dir}",
            f"--output-dir={folder}",
        ),
    )


def _are_defaults(folder: Path, workload: str) -> bool:
    """Whether a folder holds a workload's own data, prepared with the default settings."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text())
        found = {source["file"]: source["sha256"] for source in manifest["sources"]}
        is_ours = manifest["workload"] == workload and manifest["settings"] == {}
    except (OSError, ValueError, KeyError, TypeError):
        return False
    return is_ours and found == {file.name: file.sha256 for file in source_of(workload).files}


def _in_a_bucket(given: str, *, is_remote: bool) -> Examples:
    if not paths.is_in_bucket(given):
        raise ConfigError(
            f"--examples-dir {given} is a folder of this machine, which a job on Vertex AI cannot "
            "read; copy it to a bucket and give gs://BUCKET/FOLDER"
        )
    if not is_remote:
        raise ConfigError(
            f"--examples-dir {given} is in a bucket, which a job on this machine cannot read; copy "
            "it to a folder here, or give --on vertex"
        )
    return Examples(paths.uri(given))
