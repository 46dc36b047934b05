"""What a model must know of the train split, found once and kept beside the checkpoints."""

import json
from typing import Any

import tensorflow as tf

from trainer.errors import InputError
from trainer.examples.manifest import Split, read_statistics
from trainer.examples.tables import read_table
from trainer.training.checkpoint import list_checkpoints
from trainer.workloads.base import Workload

_FILE = "examples.json"
# Facts of more examples than these are no better, and these fit in memory.
_MOST_EXAMPLES = 1_000_000


def find_facts(workload: Workload, split: Split, *, compression: str) -> Workload:
    """Returns the workload with what its model must know of the train split.

    It comes from statistics.json where that suffices, else from the split's examples: of a split
    with many, from every second one, every third …
    """
    if type(workload).adapt is Workload.adapt:
        return workload
    statistics = read_statistics(split)
    adapted = workload.adapt_to_statistics(statistics) if statistics else None
    if adapted is not None:
        return adapted
    every = -(-split.num_examples // _MOST_EXAMPLES)
    features, _ = read_table(split, workload, compression=compression, raw=True, every=every)
    return workload.adapt({name: column.numpy() for name, column in features.items()})


def write_facts(directory: str, workload: Workload, split: Split) -> None:
    """Keeps the workload's facts in the folder of checkpoints, and which examples they are of."""
    tf.io.gfile.makedirs(directory)
    path = f"{directory}/{_FILE}"
    with tf.io.gfile.GFile(f"{path}.new", "w") as file:
        known = {"train": split.digest, "facts": workload.facts()}
        options = workload.changed_options()
        file.write(json.dumps({**known, **({"options": options} if options else {})}))
    tf.io.gfile.rename(f"{path}.new", path, overwrite=True)


def read_facts(directory: str, split: Split, *, workload: Workload) -> dict[str, Any] | None:
    """Returns the facts that go with the folder's checkpoints, or None if there are none yet.

    Raises:
        InputError: the checkpoints are of other examples than these, or of another model.
    """
    if not list_checkpoints(directory):
        return None
    path = f"{directory}/{_FILE}"
    try:
        with tf.io.gfile.GFile(path, "r") as file:
            content = json.loads(file.read())
        digest, facts = content["train"], content["facts"]
        options = dict(content.get("options", {}))
    except tf.errors.NotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path} is damaged ({error!r}); give --fresh to start over") from error
    if digest != split.digest:
        folder = split.paths[0].rpartition("/")[0]
        raise InputError(
            f"--examples-dir: the {split.name} examples in {folder} are not those that the"
            f" checkpoints in {directory} were trained on; give those, or --fresh to start over,"
            " or another --output-dir"
        )
    if options != workload.changed_options():
        raise InputError(
            f"the checkpoints in {directory} are of a model with {_shown(options)}, not"
            f" {_shown(workload.changed_options())}; give the same, or --fresh to start over, or"
            " another --output-dir"
        )
    return facts


def _shown(options: dict[str, Any]) -> str:
    flags = [f"--{name.replace('_', '-')} {value}" for name, value in options.items()]
    return " ".join(flags) or "default settings"
