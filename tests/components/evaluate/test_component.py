"""The step of an evaluation: what it keeps, repeats and publishes, without a real model."""

from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace

import pytest

from components.errors import StepError
from components.evaluate.case import Case
from components.evaluate.step import course_of, evaluate_model
from components.evaluate.thresholds import Check, Judgement, judge
from components.model_version.champion import Champion, Standing

pytestmark = pytest.mark.fast

VERSION, OLDER = (f"projects/p/locations/l/models/5@{number}" for number in (3, 2))
GOLDEN = {"instances": [1], "predictions": [2], "labels": ["a"]}


@pytest.mark.parametrize(
    ("keeps", "champion", "known", "state"),
    [
        (True, VERSION, "", "challenger"),
        (True, "", "", ""),
        (True, VERSION, VERSION, ""),
        (False, VERSION, "", ""),
    ],
    ids=["asked", "first model", "known", "not asked"],
)
def test_a_model_that_did_not_pass_is_kept_beside_a_default_version_if_asked(
    keeps, champion, known, state
):
    course = course_after(False, champion=champion, known=known, gate={"keep_challenger": keeps})

    assert (course.state, course.known_version, course.stop) == (state, "", "")


@pytest.mark.parametrize(
    ("release", "stop", "known", "expected"),
    [
        ({"approval": "required"}, "", "", ("waiting", "", "waiting")),
        ({"approval": "none"}, "", "", ("candidate", "", "")),
        ({"approval": "required"}, "", VERSION, ("", VERSION, "")),
        ({"approval": "required"}, "", OLDER, ("", "", "waiting")),
        ({}, "", OLDER, ("", OLDER, "")),
        ({}, "held: by ann", OLDER, ("", "", "held")),
        ({"approval": "required"}, "held: by ann", "", ("", "", "held")),
        ({}, "rejected: by ann", "", ("", "", "rejected")),
        ({"promote": False}, "", VERSION, ("", "", "not-promoted")),
        ({"promote": False}, "held: by ann", "", ("", "", "not-promoted")),
    ],
)
def test_a_model_that_passed_goes_only_as_far_as_people_allow(release, stop, known, expected):
    gate = {"keep_challenger": True}
    course = course_after(True, stop=stop, known=known, gate=gate, release=release)

    assert (course.state, course.known_version, course.stop.partition(":")[0]) == expected


def course_after(is_passed, *, gate, release=None, champion=VERSION, known="", stop=""):
    standing = Standing(
        digest="d",
        parent="",
        known_version=known,
        champion=Champion(version=champion),
        is_default=known == VERSION,
        stop=stop,
    )
    judgement = Judgement(is_passed=is_passed, reasons=())
    return course_of(judgement, standing, gate=gate, release=release or {})


@pytest.fixture
def evaluation(tmp_path, monkeypatch):
    """A model whose accuracy and server are set; counts evaluations and checks of the server."""
    (tmp_path / "model").mkdir()
    (tmp_path / "examples").mkdir()
    made = SimpleNamespace(is_passed=True, problem="", done=[])
    made.case = Case(
        model_dir=str(tmp_path / "model"), examples_dir=str(tmp_path / "examples"), thresholds="{}"
    )

    def assess(case, _):
        made.done.append("evaluated")
        check = Check(name="auc", value=1, limit=1, is_ok=made.is_passed, text="auc is 1")
        predictor = SimpleNamespace(workload=None)
        return SimpleNamespace(
            checks=[check],
            held_out=None,
            judged=SimpleNamespace(num_folds=0),
            predictor=predictor,
            judgement=judge([check]),
        )

    def check_served_model(*_, **__):
        made.done.append("checked")
        if made.problem:
            raise StepError(made.problem)
        return {"latency_ms_p99": 2.5}

    @contextmanager
    def started(model_dir, *, trust):
        yield lambda: "http://127.0.0.1"

    def content(assessed, checks):
        return {"checks": [{"ok": one.is_ok, "text": one.text} for one in checks]}

    monkeypatch.setattr("components.evaluate.assess.assess", assess)
    monkeypatch.setattr("components.evaluate.server.server.started", started)
    server = "components.evaluate.server"
    monkeypatch.setattr(f"{server}.check.check_served_model", check_served_model)
    monkeypatch.setattr("components.evaluate.assess.golden_predictions", lambda *_: GOLDEN)
    monkeypatch.setattr("components.evaluate.content.evaluation_content", content)
    return made


@pytest.mark.parametrize("change", ["image", "source", "gate", "champion", "damaged"])
def test_only_another_image_source_setting_or_champion_evaluates_again(
    evaluation, tmp_path, monkeypatch, change
):
    first = evaluate_model(evaluation.case, image="i:1")
    assert evaluate_model(evaluation.case, image="i:1") == first
    assert evaluation.done == ["evaluated", "checked"]
    values = {}
    if change == "gate":
        values["gate"] = '{"confidence": 0.9}'
    if change == "champion":
        values["champion"] = Champion(version=VERSION)
    if change == "source":
        monkeypatch.setattr("components.evaluate.step.package_digest", lambda name: "changed")
    if change == "damaged":
        (tmp_path / "model" / "evaluated.json").write_text("{")

    evaluate_model(replace(evaluation.case, **values), image="i:2" if change == "image" else "i:1")

    assert evaluation.done.count("evaluated") == 2


def test_a_server_that_fails_the_check_is_a_reason_and_is_checked_again(evaluation):
    evaluation.problem = "the prediction server\nreturned 503"
    judgement = evaluate_model(evaluation.case, image="i:1").judgement
    assert (judgement.is_passed, judgement.reasons[-1]) == (
        False,
        "the prediction server returned 503",
    )
    evaluation.problem = ""
    assert evaluate_model(evaluation.case, image="i:1").judgement.is_passed


def test_the_server_of_a_model_that_did_not_pass_is_not_checked(evaluation):
    evaluation.is_passed = False
    found = evaluate_model(evaluation.case, image="i:1")
    assert evaluation.done == ["evaluated"]
    assert (found.judgement.is_passed, found.latency) == (False, {})
