"""Evaluations in a process in which TensorFlow runs, and which cannot start a server any more."""

from components.evaluate.assess import assess, golden_predictions
from components.evaluate.case import Case
from components.evaluate.content import evaluation_content
from components.evaluate.step import Evaluated
from trainer.serving.strict_json import finite


def evaluated_offline(case: Case) -> Evaluated:
    """Return the evaluation of a model without the check of its server."""
    assessed = assess(case)
    return Evaluated(
        content=evaluation_content(assessed, assessed.checks),
        golden=finite(golden_predictions(assessed.held_out, assessed.predictor)),
        latency={},
    )
