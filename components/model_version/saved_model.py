"""Check that a folder contains a SavedModel that the prediction server can serve."""

import json
import re
from pathlib import Path

from components.errors import StepError
from components.model_version.companions import read_companion
from components.prepare_examples.raw_data.files import find_objects
from trainer import paths
from trainer.config.trust import STRANGER, Trust
from trainer.errors import TrainerError
from trainer.serving.outside_operations import check_graph
from trainer.workloads.description import UntrustedCodeError, check_code, read_description

GRAPH, VARIABLES = "saved_model.pb", "variables/variables.index"
DESCRIPTION = "workload.json"  # written beside the graph by this project's trainer
_SHARD = re.compile(r"variables/variables\.data-\d{5}-of-(\d{5})")
_KERAS_FILE = re.compile(r".*\.(keras|h5|hdf5)")


def check_saved_model(uri: str, *, trust: Trust = STRANGER) -> str:
    """Check the files of a model in a folder or in gs://, and return a description of it.

    Raises:
        StepError: A file is missing (named), the server cannot serve the model, or it needs more
            trust in its author than `trust`.
        OSError: The folder cannot be read.
    """
    is_remote = paths.is_bucket_uri(uri)
    if is_remote:
        names = {blob.uri.removeprefix(f"{uri}/") for blob in find_objects(f"{uri}/*")}
    else:
        names = _names_in_folder(uri)
    if GRAPH not in names:
        raise StepError(f"{uri} has no {GRAPH}, so it is not a SavedModel{_hint(uri, names)}")
    _check_variables(uri, names)
    if not trust.graph:
        try:
            check_graph(read_companion(uri, GRAPH) or b"", model_dir=uri)
        except TrainerError as error:
            raise StepError(str(error)) from error
    if DESCRIPTION not in names:
        return f"a SavedModel that {_signature(uri)}"
    return _described(uri, is_remote=is_remote, trusts_code=trust.code)


def _names_in_folder(uri: str) -> set[str]:
    folder = Path(uri)
    if _KERAS_FILE.fullmatch(uri) and folder.is_file():
        raise StepError(f"{uri} is not a SavedModel{_exported(uri)}")
    if not folder.is_dir():
        problem = "is a file; give its folder" if folder.exists() else "does not exist"
        raise StepError(f"{uri} {problem}")
    paths = [path for pattern in ("*", "*/*") for path in folder.glob(pattern)]
    return {path.relative_to(folder).as_posix() for path in paths if path.is_file()}


def _check_variables(uri: str, names: set[str]) -> None:
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


def _described(uri: str, *, is_remote: bool, trusts_code: bool) -> str:
    path = f"{uri}/{DESCRIPTION}"
    try:
        content = json.loads(read_companion(uri, DESCRIPTION) or b"")
        if not trusts_code:
            check_code(content)
        if is_remote:  # the image of its server has its code, this machine may not
            return "a model of this trainer"
        workload = read_description(content, trusts_code=trusts_code)
    except UntrustedCodeError as error:
        raise StepError(f"{path}: {error}") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise StepError(f"{path} does not describe a model: {error!r}") from error
    return f"a model of {workload.name}, by this trainer"


def _signature(uri: str) -> str:
    from trainer.runtime.tensorflow_logs import import_tensorflow

    import_tensorflow()
    from trainer.serving.signature import read_signature

    try:
        return str(read_signature(uri))
    except TrainerError as error:
        raise StepError(str(error)) from error
