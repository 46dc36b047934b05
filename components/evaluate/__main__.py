"""`python -m components.evaluate`: metrics of a model on a split, without a verdict."""

import argparse
import json
import logging
import os
import sys

from components.errors import exit_code_of
from components.evaluate.held_out import read_held_out
from components.evaluate.thresholds import format_metric
from trainer.config.trust import OWN
from trainer.runtime.tensorflow_logs import import_tensorflow


def main(argv: list[str] | None = None) -> int:
    """Print the metrics of a model; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m components.evaluate", description=__doc__)
    parser.add_argument("--model", required=True, metavar="DIR", help="folder of your own model")
    parser.add_argument("--examples-dir", required=True, metavar="DIR", help="prepared examples")
    parser.add_argument("--split", default="test", help="default: %(default)s")
    parser.add_argument("--json", action="store_true", help="print JSON")
    arguments = parser.parse_args(argv)
    logging.basicConfig(format="%(message)s", stream=sys.stderr)
    return exit_code_of(lambda: _evaluate(arguments))


def _evaluate(arguments: argparse.Namespace) -> None:
    import_tensorflow()
    from trainer.serving.export import load_predictor

    predictor = load_predictor(arguments.model, trust=OWN)
    split = read_held_out(arguments.examples_dir, predictor, split=arguments.split)
    evaluation = split.score()
    facts = {"num_examples": evaluation.num_examples, **evaluation.metrics}
    shown = (
        f"{arguments.split} {name:<16} {value if name == 'num_examples' else format_metric(value)}"
        for name, value in facts.items()
    )
    sys.stdout.write((json.dumps(facts, indent=2) if arguments.json else "\n".join(shown)) + "\n")


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)  # no destructors: TensorFlow's may wait for threads
