"""Command line of batch_predict: predict files on this machine, without a pipeline."""

import argparse
import logging
import os
import sys
from collections.abc import Sequence

from components.batch_predict.options import PredictOptions
from components.batch_predict.step import describe, predict_files
from components.batch_predict.unknown_values import unknown_text
from components.errors import exit_code_of
from components.prepare_examples.beam.runner_flags import RUNNERS, runner_flags
from trainer.config.flags import add_flags
from trainer.config.trust import add_trust_flags, trust_of

DESCRIPTION = """\
Write a model's predictions for the rows of files: JSON lines of instances, CSV, Parquet, or
TFRecords of tf.train.Examples. The output folder appears only when it is complete; it holds
predictions-*.jsonl (or .parquet), errors-*.jsonl with the rows without a prediction, and
summary.json.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Predict files; return the exit code: 0 done, 1 failed, 2 wrong input."""
    arguments = _parser().parse_args(argv)
    logging.basicConfig(format="%(message)s", level=logging.INFO, stream=sys.stderr)
    return exit_code_of(lambda: _predict(arguments))


def _predict(arguments: argparse.Namespace) -> None:
    names = ("format", "max_errors", "time_zone")
    options = PredictOptions(
        **{name: getattr(arguments, name) for name in names},
        beam_options=(*runner_flags(arguments.runner), *arguments.beam_options),
    )
    summary = predict_files(
        arguments.model,
        inputs=arguments.input,
        output_dir=arguments.output,
        options=options,
        trust=trust_of(arguments),
    )
    print(f"{arguments.output}: {describe(summary)}")
    if summary["unused_columns"]:
        print(f"columns that the model does not use: {', '.join(summary['unused_columns'])}")
    if summary["unknown_values"]:
        print(f"values that the model does not know: {unknown_text(summary['unknown_values'])}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m components.batch_predict", description=DESCRIPTION
    )
    parser.add_argument("--model", required=True, metavar="DIR", help="folder of the model")
    parser.add_argument(
        "--input",
        required=True,
        action="append",
        metavar="PATTERN",
        help="files to predict; may be repeated",
    )
    parser.add_argument("--output", required=True, metavar="DIR", help="folder to create")
    add_flags(parser, PredictOptions)
    add_trust_flags(parser)
    parser.add_argument("--runner", default="", choices=RUNNERS, help="Beam's runner")
    parser.add_argument("beam_options", nargs="*", help="Beam's own flags, after --")
    return parser


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # no destructors: TensorFlow's may wait for threads
