"""Facts about the data that a model was trained on, written beside the model for later runs."""

import json
from pathlib import Path

from components.model_version.companions import INPUT_FILE, STATISTICS_FILE, write_companion
from components.new_data.drift_since import train_statistics


def write_data_facts(model_dir: str, examples_dir: str) -> None:
    """Write the statistics of the train split and the record of the input beside a model.

    Examples that another program has prepared have neither.
    """
    if Path(examples_dir, STATISTICS_FILE).is_file():
        write_companion(model_dir, STATISTICS_FILE, json.dumps(train_statistics(examples_dir)))
    record = Path(examples_dir, INPUT_FILE)
    if record.is_file():
        write_companion(model_dir, INPUT_FILE, record.read_text(encoding="utf-8"))
