from types import SimpleNamespace

import pytest

from components.evaluate import step
from components.evaluate.component import evaluate
from components.evaluate.thresholds import Judgement

pytestmark = pytest.mark.fast

ARTIFACTS = ("examples", "model", "metrics", "confusion", "golden", "report", "evaluation")


@pytest.mark.parametrize(
    ("is_passed", "keeps", "champion", "challenger"),
    [
        (False, "true", "projects/p/locations/l/models/5@3", "yes"),
        (False, "true", "", "no"),
        (False, "false", "projects/p/locations/l/models/5@3", "no"),
        (True, "true", "projects/p/locations/l/models/5@3", "no"),
    ],
    ids=["asked", "first model", "not asked", "passed"],
)
def test_a_model_that_did_not_pass_is_kept_beside_a_default_version_if_asked(
    monkeypatch, is_passed, keeps, champion, challenger
):
    given = {}

    def judged(**arguments):
        given.update(arguments)
        return Judgement(is_passed=is_passed, reasons=("a", "b"))

    monkeypatch.setattr(step, "evaluate_model", judged)
    artifacts = {name: SimpleNamespace(path=f"/{name}", uri=f"/{name}") for name in ARTIFACTS}
    gate = f'{{"keep_challenger": {keeps}}}'

    verdict, reasons, kept = evaluate.python_func(
        thresholds="{}", gate=gate, champion_version=champion, champion_uri="/c", **artifacts
    )

    assert (verdict, reasons, kept) == ("passed" if is_passed else "failed", "a\nb", challenger)
    assert (given["gate"], given["champion_uri"]) == (gate, "/c")
    assert given["evaluation_path"] == "/evaluation"
