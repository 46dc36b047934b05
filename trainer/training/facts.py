"""Facts of the train split that a model is built from, such as means and vocabularies.

They are computed once and saved beside the checkpoints.
"""

from typing import Any

import tensorflow as tf

from trainer.config.model_settings import setting_flag
from trainer.errors import InputError
from trainer.examples.manifest import SplitFiles, read_statistics
from trainer.examples.tables import Decoder
from trainer.runtime.files import read_json, write_json
from trainer.training.checkpoint import list_checkpoints
from trainer.workloads.base import Workload
from trainer.workloads.declarations.model_settings import as_text

_FILE = "examples.json"
# A sample of this size fits in memory; facts of more examples are no better.
_MOST_EXAMPLES = 1_000_000


def find_facts(workload: Workload, split: SplitFiles, *, compression: str) -> Workload:
    """Return the workload with the facts of the train split that its model is built from.

    They come from statistics.json if it suffices, otherwise from the split's examples: from every
    n-th one if the split is large.

    Raises:
        InputError: a record is unreadable, or has a text that is not UTF-8; names both.
    """
    if not workload.learns:
        return workload
    statistics = read_statistics(split)
    workload = workload.with_statistics(statistics or {})
    adapted = workload.adapt_to_statistics(statistics) if statistics else None
    if adapted is not None:
        return adapted
    every = -(-split.num_examples // _MOST_EXAMPLES)
    decoder = Decoder(workload=workload, compression=compression, is_raw=True, every=every)
    features, _ = decoder.read_split(split)
    with decoder.explaining_errors(split.shards):
        return workload.adapt({name: column.numpy() for name, column in features.items()})


def write_facts(directory: str, workload: Workload, split: SplitFiles) -> None:
    """Save the facts, the digest of their examples, and the options of the model."""
    tf.io.gfile.makedirs(directory)
    content = {
        "train": split.digest,
        "facts": workload.facts(),
        "options": workload.changed_options(),
    }
    write_json(f"{directory}/{_FILE}", content)


def read_facts(directory: str, split: SplitFiles, *, workload: Workload) -> dict[str, Any] | None:
    """Return the facts saved with checkpoints, None without; InputError if they are of others."""
    if not list_checkpoints(directory):
        return None
    path = f"{directory}/{_FILE}"
    try:
        content = read_json(path)
        digest, facts, options = content["train"], content["facts"], dict(content["options"])
    except tf.errors.NotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path} is damaged ({error!r}); give --fresh to start over") from error
    if digest != split.digest:
        folder = split.paths[0].rpartition("/")[0]
        raise InputError(
            f"--examples-dir: the checkpoints in {directory} were trained on other {split.name}"
            f" examples than those in {folder}; give the same examples, or --fresh to start over,"
            " or another --output-dir"
        )
    if options != workload.changed_options():
        raise InputError(
            f"the checkpoints in {directory} are of a model with {_as_flags(options)}, not"
            f" {_as_flags(workload.changed_options())}; give the same, or --fresh to start over, or"
            " another --output-dir"
        )
    return facts


def _as_flags(options: dict[str, Any]) -> str:
    flags = [f"{setting_flag(name)} {as_text(value)}" for name, value in options.items()]
    return " ".join(flags) or "default settings"
