"""The examples that a training job reads: a given folder, or one prepared once here."""

import glob
import hashlib
import json
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from components.prepare_examples.declarations import source_of
from components.prepare_examples.output.publish import MANIFEST
from components.prepare_examples.raw_data.run_files import resolve, run_moment
from components.prepare_examples.settings.options import PrepareOptions
from pipelines.config.run_config import RunConfig
from pipelines.places.target import Target
from trainer import paths
from trainer.config.settings import flag_name
from trainer.errors import ConfigError
from trainer.runtime.processes import ending_with_parent

DIGEST_DIGITS = 12
PREPARE = "python -m components.prepare_examples"
PREPARE_TIMEOUT_SECONDS = 3600


@dataclass(frozen=True)
class Examples:
    """A folder of examples, and the command that creates it; () if it exists.

    `data_dir` is the folder of raw files that the command needs.
    """

    uri: str
    command: tuple[str, ...] = ()
    data_dir: Path = Path()

    def prepare(self) -> None:
        """Run the command, if there is one.

        Raises:
            ConfigError: it failed; its stderr has the reason.
        """
        if not self.command:
            return
        self.data_dir.mkdir(parents=True, exist_ok=True)
        code = subprocess.run(
            ending_with_parent(*self.command),
            check=False,
            stdout=sys.stderr,
            timeout=PREPARE_TIMEOUT_SECONDS,
        ).returncode
        if code:
            raise ConfigError(f"preparing the examples failed (exit code {code}); see above")


def examples_of(config: RunConfig, target: Target, *, examples_dir: str | None) -> Examples:
    """Return the examples of a job: `examples_dir`, or the workload's folder in the local state.

    Raises:
        ConfigError: there are none and they cannot be prepared here.
    """
    is_remote = paths.is_in_bucket(target.pipeline_root)
    if examples_dir is None:
        return _default_examples(config, target, is_remote=is_remote)
    if is_remote or paths.is_bucket_uri(examples_dir):
        return _in_a_bucket(examples_dir, is_remote=is_remote)
    folder = Path(examples_dir).absolute()
    if not (folder / MANIFEST).is_file():
        raise ConfigError(
            f"--examples-dir {folder} has no {MANIFEST}; prepare the examples with: {PREPARE} "
            f"--workload {shlex.quote(config.workload)} --output-dir {shlex.quote(str(folder))}"
        )
    return Examples(str(folder))


def prepare_flags(options: PrepareOptions) -> list[str]:
    """Return the flags of prepare_examples for settings that differ from the defaults."""
    flags = []
    for name, value in options.changed().items():
        flag = flag_name(name)
        if name == "num_shards":
            flags += [f"--{split}-shards={count}" for split, count in value.items()]
        elif name == "files":
            flags += [f"{flag}={item}" for item in value]
        elif name == "split":
            flags.append(f"{flag}={json.dumps(value)}")
        elif isinstance(value, Mapping):
            flags.append(f"{flag}={','.join(f'{key}={item}' for key, item in value.items())}")
        elif isinstance(value, tuple):
            flags.append(f"{flag}={','.join(value)}")
        else:
            flags.append(flag if value is True else f"{flag}={value}")
    return [*flags, "--", *options.beam_options] if options.beam_options else flags


def _default_examples(config: RunConfig, target: Target, *, is_remote: bool) -> Examples:
    workload = shlex.quote(config.workload)
    if is_remote:
        raise ConfigError(
            "a job on Vertex AI needs --examples-dir gs://BUCKET/FOLDER: use the output of the "
            f"prepare-examples step of a `trainyard run {workload}`, or create one with "
            f"{PREPARE} --workload {workload} --output-dir FOLDER and copy it"
        )
    if not config.is_built_in:
        return _own_examples(config, target)
    folder = target.state_dir / "examples" / config.workload
    if _has_default_examples(folder, config.workload):
        return Examples(str(folder))
    return _to_prepare(config, target, folder)


def _own_examples(config: RunConfig, target: Target) -> Examples:
    """Return the examples of a user's workload; its code, settings and files name the folder."""
    options = config.prepare_options()
    options = resolve(options, run_moment(options))
    files = [
        [str(path), path.stat().st_size, path.stat().st_mtime_ns]
        for pattern in options.files
        for name in sorted(glob.glob(pattern, recursive=True))
        for path in (Path(name), *sorted(Path(name).rglob("*")))
        if path.is_file()
    ]
    facts = json.dumps([config.workload, options.changed(), files], default=str)
    digest = hashlib.sha256(facts.encode()).hexdigest()[:DIGEST_DIGITS]
    folder = target.state_dir / "examples" / f"{config.name}-{digest}"
    if (folder / MANIFEST).is_file():
        return Examples(str(folder))
    return _to_prepare(config, target, folder, prepare_flags(options))


def _to_prepare(
    config: RunConfig, target: Target, folder: Path, flags: Sequence[str] = ()
) -> Examples:
    data_dir = Path(target.data_root) / config.name
    command = (
        "components.prepare_examples",
        f"--workload={config.workload}",
        f"--data-dir={data_dir}",
        f"--output-dir={folder}",
        *flags,
    )
    return Examples(str(folder), command, data_dir)


def _has_default_examples(folder: Path, workload: str) -> bool:
    """Return whether a folder has a workload's data, prepared with the default settings."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text())
        digests = {source["file"]: source["sha256"] for source in manifest["sources"]}
        is_default = manifest["workload"] == workload and manifest["settings"] == {}
    except (OSError, ValueError, KeyError, TypeError):
        return False
    return is_default and digests == {file.name: file.sha256 for file in source_of(workload).files}


def _in_a_bucket(folder: str, *, is_remote: bool) -> Examples:
    if not paths.is_in_bucket(folder):
        raise ConfigError(
            f"--examples-dir {folder} is a local folder, which a job on Vertex AI cannot read; copy"
            " it to a bucket and give gs://BUCKET/FOLDER"
        )
    if not is_remote:
        raise ConfigError(
            f"--examples-dir {folder} is in a bucket, which a job on this machine cannot read; copy"
            " it to a local folder, or use --on vertex"
        )
    return Examples(paths.uri(folder))
