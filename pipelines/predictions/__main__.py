"""Prediction of files in a process of its own, which `trainyard predict` starts."""

import argparse
import logging
import os
import sys
from collections.abc import Sequence

from components.errors import exit_code_of
from pipelines.predictions.options import PredictOptions
from pipelines.predictions.predict import describe, predict_files
from pipelines.predictions.unknown_values import unknown_text
from trainer.config.flags import add_flags
from trainer.config.trust import add_trust_flags, trust_of


def main(argv: Sequence[str] | None = None) -> int:
    """Predict files; return the exit code: 0 done, 1 failed, 2 wrong input."""
    parser = argparse.ArgumentParser(prog="python -m pipelines.predictions", description=__doc__)
    parser.add_argument("--model", required=True, help="folder of the model")
    parser.add_argument("--input", required=True, action="append", help="files to predict")
    parser.add_argument("--output", required=True, help="folder to create")
    add_flags(parser, PredictOptions)
    add_trust_flags(parser)
    arguments = parser.parse_args(argv)
    logging.basicConfig(format="%(message)s", level=logging.INFO, stream=sys.stderr)
    return exit_code_of(lambda: _predict(arguments))


def _predict(arguments: argparse.Namespace) -> None:
    summary = predict_files(
        arguments.model,
        inputs=arguments.input,
        output_dir=arguments.output,
        options=PredictOptions(
            format=arguments.format,
            max_errors=arguments.max_errors,
            time_zone=arguments.time_zone,
        ),
        trust=trust_of(arguments),
    )
    print(f"{arguments.output}: {describe(summary)}")
    if summary["unused_columns"]:
        print(f"columns that the model does not use: {', '.join(summary['unused_columns'])}")
    if summary["unknown_values"]:
        print(f"values that the model does not know: {unknown_text(summary['unknown_values'])}")


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # no destructors: TensorFlow's may wait for threads
