"""Beam's flags, checked before any work starts."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from components.prepare_examples.errors import DataError
from trainer import paths
from trainer.errors import did_you_mean

RUNNERS = ("DirectRunner", "DataflowRunner", "FlinkRunner", "SparkRunner", "PortableRunner")
DATAFLOW = "DataflowRunner"


def runner_flags(runner: str, *, num_workers: int = 0) -> tuple[str, ...]:
    """Return Beam's flags for a runner; without its name, for the runner that other flags name.

    With the DirectRunner `num_workers` forked processes do the work; 0: one for each core.
    """
    flags = (f"--runner={runner}",) if runner else ()
    if num_workers == 0:
        return flags
    running = ("--direct_running_mode=multi_threading",) if num_workers > 1 else ()
    return (*flags, f"--direct_num_workers={num_workers}", *running)


def checked_flags(flags: Sequence[str], output: Path) -> tuple[str, ...]:
    """Return the flags; Dataflow stages in the output's bucket unless they say otherwise.

    Raises:
        DataError: a flag is unknown or its value invalid, or Dataflow lacks one.
    """
    if not flags:
        return ()
    values = _parsed(flags)
    runner = values["runner"] or RUNNERS[0]
    if runner not in RUNNERS:
        raise DataError(f"runner is {runner!r}; allowed are {', '.join(RUNNERS)}")
    return _for_dataflow(flags, values, output) if runner == DATAFLOW else tuple(flags)


class _FlagsParser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise DataError(f"Beam's flags: {message}")


def _parsed(flags: Sequence[str]) -> dict[str, Any]:
    from apache_beam.options.pipeline_options import PipelineOptions

    parser = _FlagsParser(allow_abbrev=False, conflict_handler="resolve", add_help=False)
    for group in PipelineOptions.__subclasses__():
        if "_add_argparse_args" in vars(group):
            group._add_argparse_args(parser)
    namespace, unknown = parser.parse_known_args(list(flags))
    if unknown:
        known = [option for action in parser._actions for option in action.option_strings]
        hint = did_you_mean(unknown[0].partition("=")[0], known)
        raise DataError(f"{unknown[0]} is not a flag of Beam{';' if hint else ''}{hint}")
    return vars(namespace)


def _for_dataflow(flags: Sequence[str], values: dict[str, Any], output: Path) -> tuple[str, ...]:
    for name in ("project", "region"):
        if not values[name]:
            raise DataError(f"DataflowRunner needs --{name}; add it after --")
    if not (values["sdk_container_image"] or values["setup_file"]):
        raise DataError(
            "DataflowRunner needs an image with this repository for its workers: add "
            "--sdk_container_image=IMAGE (or --setup_file=setup.py) after --"
        )
    bucket = paths.bucket_of(output)
    staging = values["temp_location"] or (f"{bucket}/dataflow" if bucket else "")
    if not paths.is_bucket_uri(staging):
        raise DataError(
            f"temp_location is {staging!r}; DataflowRunner stages in a bucket: write the output to "
            "one, or add --temp_location=gs://BUCKET/FOLDER after --"
        )
    return tuple(flags) if values["temp_location"] else (*flags, f"--temp_location={staging}")
