"""Check that a folder contains a SavedModel that the prediction server can serve."""

import json
import re
from pathlib import Path

from components.errors import StepError
from components.prepare_examples.raw_data.buckets import find_objects
from trainer import paths
from trainer.errors import TrainerError
from trainer.workloads.description import read_description

GRAPH, VARIABLES = "saved_model.pb", "variables/variables.index"
DESCRIPTION = "workload.json"  # written beside the graph by this project's trainer
_SHARD = re.compile(r"variables/variables\.data-\d{5}-of-(\d{5})")
_KERAS_FILE = re.compile(r".*\.(keras|h5|hdf5)")


def check_saved_model(uri: str) -> str:
    """Check the files of a model in a folder or in gs://, and return a description of it.

    Raises:
        StepError: A file is missing (named), or the server cannot serve the model.
        OSError: The folder cannot be read.
    """
    is_remote = paths.is_bucket_uri(uri)
    names = _names_in_bucket(uri) if is_remote else _names_in_folder(uri)
    if GRAPH not in names:
        raise StepError(f"{uri} has no {GRAPH}, so it is not a SavedModel{_hint(uri, names)}")
    _check_variables(uri, names)
    if DESCRIPTION not in names:
        return f"a SavedModel that {_signature(uri)}"
    return "a model of this trainer" if is_remote else _described(Path(uri) / DESCRIPTION)


def _names_in_folder(uri: str) -> set[str]:
    folder = Path(uri)
    if _KERAS_FILE.fullmatch(uri) and folder.is_file():
        raise StepError(f"{uri} is not a SavedModel{_exported(uri)}")
    if not folder.is_dir():
        problem = "is a file; give its folder" if folder.exists() else "does not exist"
        raise StepError(f"{uri} {problem}")
    found = [path for pattern in ("*", "*/*") for path in folder.glob(pattern)]
    return {path.relative_to(folder).as_posix() for path in found if path.is_file()}


def _names_in_bucket(uri: str) -> set[str]:
    return {found.uri.removeprefix(f"{uri}/") for found in find_objects(f"{uri}/*")}


def _check_variables(uri: str, names: set[str]) -> None:
    """Check that the files of the variables are all present, or all absent."""
    if not any(name.startswith("variables/") for name in names):
        return
    shards = [match for name in names if (match := _SHARD.fullmatch(name))]
    count = int(shards[0][1]) if shards else 1
    expected = {f"variables/variables.data-{n:05d}-of-{count:05d}" for n in range(count)}
    if missing := sorted({VARIABLES, *expected} - names):
        raise StepError(
            f"{uri} lacks {', '.join(missing)}, which its {GRAPH} needs; copy the whole folder"
        )


def _hint(uri: str, names: set[str]) -> str:
    below = sorted(name for name in names if name.endswith(f"/{GRAPH}"))
    keras = sorted(name for name in names if _KERAS_FILE.fullmatch(name))
    if below:
        return f"; did you mean {uri}/{below[-1].rpartition('/')[0]}?"
    if keras:
        return _exported(f"{uri}/{keras[0]}")
    if "checkpoint" in names:
        return "; it contains checkpoints: load them into the model and call model.export(DIR)"
    return "" if names else ": it is empty"


def _exported(path: str) -> str:
    return f"; export one: keras.models.load_model({path!r}).export(DIR), and upload DIR"


def _described(path: Path) -> str:
    try:
        content = json.loads(path.read_text())
        workload = read_description(content)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise StepError(f"{path} does not describe a model: {error!r}") from error
    return f"a {workload.name} model of this trainer"


def _signature(uri: str) -> str:
    from trainer.runtime.tensorflow_logs import import_tensorflow

    import_tensorflow()
    from trainer.serving.signature import read_signature

    try:
        return str(read_signature(uri))
    except TrainerError as error:
        raise StepError(str(error)) from error
