"""Facts about the data that a model was trained on, written beside the model for later runs."""

import json
from pathlib import Path

from components.model_version.companions import INPUT_FILE, STATISTICS_FILE, write_companion
from components.new_data.drift_since import train_statistics
from components.prepare_examples.output.manifest import split_of
from components.prepare_examples.output.publish import MANIFEST
from components.shared.text.json_object import read_object


def write_data_facts(model_dir: str, examples_dir: str) -> None:
    """Write the statistics of the train split and the record of the input beside a model.

    The record has the rule of the splits. Examples that another program has prepared have neither.
    """
    if Path(examples_dir, STATISTICS_FILE).is_file():
        write_companion(model_dir, STATISTICS_FILE, json.dumps(train_statistics(examples_dir)))
    if Path(examples_dir, INPUT_FILE).is_file():
        record = read_object(Path(examples_dir, INPUT_FILE))
        record["split"] = split_of(read_object(Path(examples_dir, MANIFEST)))
        write_companion(model_dir, INPUT_FILE, json.dumps(record))
