"""The examples that a training job reads: a given folder, or one prepared once here."""

import glob
import hashlib
import json
import logging
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from components.errors import exit_code_of
from components.prepare_examples.declarations import source_of
from components.prepare_examples.output.publish import MANIFEST
from components.prepare_examples.raw_data.run_files import resolve, run_moment
from components.prepare_examples.settings.options import PrepareOptions
from pipelines.config.run_config import RunConfig
from pipelines.places.target import Target, local_folder
from trainer import Json, paths
from trainer.errors import ConfigError, near_path
from trainer.runtime.processes import ending_with_parent

DIGEST_DIGITS = 12
PREPARE = "python -m components.prepare_examples"
PREPARE_TIMEOUT_SECONDS = 3600


@dataclass(frozen=True)
class Examples:
    """A folder of examples, and how to prepare them; None if it exists."""

    uri: str
    request: Json | None = None

    def prepare(self) -> None:
        """Prepare the examples in another process, if they do not exist.

        Raises:
            ConfigError: it failed; its stderr has the reason.
        """
        if self.request is None:
            return
        Path(self.request["data_dir"]).mkdir(parents=True, exist_ok=True)
        code = subprocess.run(
            ending_with_parent("pipelines.jobs.examples", json.dumps(self.request)),
            check=False,
            stdout=sys.stderr,
            timeout=PREPARE_TIMEOUT_SECONDS,
        ).returncode
        if code:
            raise ConfigError(f"preparing the examples failed (exit code {code}); see above")


def examples_of(config: RunConfig, target: Target, *, examples_dir: str | None) -> Examples:
    """Return the examples of a job: `examples_dir`, or a folder in the local state.

    Raises:
        ConfigError: there are none and they cannot be prepared here.
    """
    is_remote = paths.is_in_bucket(target.pipeline_root)
    workload = shlex.quote(config.workload)
    if examples_dir is None and is_remote:
        raise ConfigError(
            "a job on Vertex AI needs --examples-dir gs://BUCKET/FOLDER: use the output of the "
            f"prepare-examples step of a `trainyard run {workload}`, or create one with "
            f"{PREPARE} --workload {workload} --output-dir FOLDER and copy it"
        )
    if examples_dir is None:
        return _kept_examples(config, target)
    if is_remote and not paths.is_in_bucket(examples_dir):
        raise ConfigError(
            f"--examples-dir {examples_dir} is a local folder, which a job on Vertex AI cannot"
            " read; copy it to a bucket and give gs://BUCKET/FOLDER"
        )
    if is_remote:
        return Examples(paths.uri(examples_dir))
    folder = local_folder(examples_dir, target.state_dir)
    if not (folder / MANIFEST).is_file():
        raise ConfigError(
            f"--examples-dir {folder} has no {MANIFEST}; prepare the examples with: {PREPARE} "
            f"--workload {workload} --output-dir {shlex.quote(str(folder))}{near_path(folder)}"
        )
    return Examples(str(folder))


def _kept_examples(config: RunConfig, target: Target) -> Examples:
    """Return the examples of a workload; its code, settings and files name the folder."""
    options = config.prepare_options()
    options = resolve(options, run_moment(options))
    settings = {**options.changed(), "beam_options": options.beam_options}
    files = [
        [str(path), path.stat().st_size, path.stat().st_mtime_ns]
        for pattern in options.files
        for name in sorted(glob.glob(pattern, recursive=True))
        for path in (Path(name), *sorted(Path(name).rglob("*")))
        if path.is_file()
    ]
    if config.is_built_in:
        files += [[file.name, file.sha256] for file in source_of(config.workload).files]
    facts = json.dumps([config.workload, settings, files], default=str)
    digest = hashlib.sha256(facts.encode()).hexdigest()[:DIGEST_DIGITS]
    folder = target.state_dir / "examples" / f"{config.name}-{digest}"
    if (folder / MANIFEST).is_file():
        return Examples(str(folder))
    request = {
        "workload": config.workload,
        "output_dir": str(folder),
        "data_dir": f"{target.data_root}/{config.name}",
        "options": settings,
    }
    return Examples(str(folder), request)


def _prepare(request: Json) -> None:
    from components.prepare_examples.prepare import prepare

    options = PrepareOptions(**request.pop("options"))
    prepare(**request, options=options)


if __name__ == "__main__":
    logging.basicConfig(format="%(message)s", level=logging.INFO, stream=sys.stderr)
    sys.exit(exit_code_of(lambda: _prepare(json.loads(sys.argv[1]))))
