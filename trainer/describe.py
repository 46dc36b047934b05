"""Description of a workload as JSON: `python -m trainer.describe REFERENCE`.

Commands that must know a user's workload read it from this process, so that no code of the user
runs in theirs.
"""

import argparse
import json
import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from trainer import Json
from trainer.config.train_config import TrainConfig
from trainer.errors import ConfigError
from trainer.references import BUILT_IN, is_path
from trainer.workloads import Workload, load_workload
from trainer.workloads.loading import package_digest

EXIT_WRONG = 2


def describe(reference: str, train: Json) -> Json:
    """Return a workload's name, label, metrics, features, models and settings, with given values.

    The settings of the training are checked against the workload.

    Raises:
        ConfigError: there is no such workload, its file fails, or a setting is not allowed.
    """
    config = TrainConfig(**{"workload": reference, "examples_dir": "-", **train})
    config.recipe()
    workload = load_workload(reference)
    settings = workload.settings_of(config.model)
    values = config.model_settings
    return {
        "name": workload.name,
        "label": {"kind": workload.label.kind, "column": workload.label.column},
        "labels": list(workload.labels),
        "metrics": workload.evaluated_metrics,
        "may_have_more_metrics": _may_be_compiled(workload, reference),
        "features": workload.feature_names,
        "aliases": dict(getattr(workload, "aliases", {})),
        "models": list(workload.recipes),
        "settings": {
            name: {"type": setting.kind.__name__, "default": setting.default}
            for name, setting in settings.items()
        },
        "model_settings": {name: settings[name].parse(value) for name, value in values.items()},
        "has_source": workload.source is not None,
        "digest": "" if reference in BUILT_IN or is_path(reference) else package_digest(reference),
    }


def _may_be_compiled(workload: Workload, reference: str) -> bool:
    """Return whether the user's model may be compiled: with metrics, known once it is built."""
    if workload.model is None:
        return False
    path = Path(reference)
    files = path.rglob("*.py") if path.is_dir() else [path]
    return not is_path(reference) or any(
        "compile(" in file.read_text("utf-8", "replace") for file in files
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Write the description, or {"error": …}, as JSON to stdout; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m trainer.describe", description=__doc__)
    parser.add_argument("reference", help="as of --workload of the trainer")
    parser.add_argument("--train", default="{}", help="settings of the trainer, a JSON object")
    arguments = parser.parse_args(argv)
    # What the user's code prints goes to stderr, also what it does so below Python.
    stdout = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    description = _described(arguments.reference, json.loads(arguments.train))
    with stdout:
        json.dump(description, stdout, default=str)
    return EXIT_WRONG if "error" in description else 0


def _described(reference: str, train: Json) -> dict[str, Any]:
    try:
        return describe(reference, train)
    except ConfigError as error:
        return {"error": str(error)}
    except SystemExit as error:
        return {"error": f"it exits while it is imported, with {error.code!r}; remove that call"}
    except BaseException:
        return {"error": f"it cannot be loaded:\n{traceback.format_exc()}"}


if __name__ == "__main__":
    sys.exit(main())
