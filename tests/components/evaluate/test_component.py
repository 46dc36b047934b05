"""The step of an evaluation: what it keeps, repeats and publishes, without a real model."""

import json
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
from kfp.dsl import ClassificationMetrics, Metrics

from components.errors import StepError
from components.evaluate.step import Case, Evaluated, course_of, evaluate_model, publish
from components.evaluate.thresholds import Check, Judgement, judge
from components.model_version.champion import Champion, Standing
from tests.support.data.report_files import ten_classes

pytestmark = pytest.mark.fast

VERSION, OLDER = (f"projects/p/locations/l/models/5@{number}" for number in (3, 2))
GOLDEN = {"instances": [1], "predictions": [2], "labels": ["a"]}


@pytest.mark.parametrize(
    ("is_passed", "keeps", "champion", "known", "state"),
    [
        (False, True, VERSION, "", "challenger"),
        (False, True, "", "", ""),
        (False, True, VERSION, VERSION, ""),
        (False, False, VERSION, "", ""),
        (True, True, VERSION, "", "candidate"),
        (True, False, VERSION, VERSION, ""),
    ],
    ids=["asked", "first model", "known", "not asked", "passed", "passed and known"],
)
def test_a_model_that_did_not_pass_is_kept_beside_a_default_version_if_asked(
    is_passed, keeps, champion, known, state
):
    standing = Standing(
        digest="d", parent="", known_version=known, champion=Champion(version=champion)
    )
    judgement = Judgement(is_passed=is_passed, reasons=())

    course = course_of(judgement, standing, gate={"keep_challenger": keeps}, release={})

    assert (course.state, course.stop) == (state, "")
    assert course.known_version == (known if is_passed else "")


@pytest.mark.parametrize(
    ("release", "stop", "known", "expected"),
    [
        ({"approval": "required"}, "", "", ("waiting", "", "waiting")),
        ({"approval": "none"}, "", "", ("candidate", "", "")),
        ({"approval": "required"}, "", VERSION, ("", VERSION, "")),
        ({"approval": "required"}, "", OLDER, ("", "", "waiting")),
        ({}, "", OLDER, ("", OLDER, "")),
        ({}, "held: by ann", OLDER, ("", "", "held")),
        ({}, "held: by ann", "", ("", "", "held")),
        ({"approval": "required"}, "held: by ann", "", ("", "", "held")),
        ({}, "rejected: by ann", "", ("", "", "rejected")),
        ({"promote": False}, "", VERSION, ("", "", "not-promoted")),
        ({"promote": False}, "held: by ann", "", ("", "", "not-promoted")),
    ],
)
def test_a_model_that_passed_goes_only_as_far_as_people_allow(release, stop, known, expected):
    standing = Standing(
        digest="d",
        parent="",
        known_version=known,
        champion=Champion(version=VERSION),
        is_default=known == VERSION,
        stop=stop,
    )

    course = course_of(Judgement(is_passed=True, reasons=()), standing, gate={}, release=release)

    assert (course.state, course.known_version, course.stop.partition(":")[0]) == expected


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


def test_the_same_evaluation_is_not_repeated(evaluation):
    first = evaluate_model(evaluation.case, image="i:1")
    assert evaluation.done == ["evaluated", "checked"]
    assert evaluate_model(evaluation.case, image="i:1") == first
    assert evaluation.done == ["evaluated", "checked"]


@pytest.mark.parametrize("change", ["image", "source", "gate", "champion", "damaged"])
def test_another_image_source_setting_or_champion_evaluates_again(
    evaluation, tmp_path, monkeypatch, change
):
    evaluate_model(evaluation.case, image="i:1")
    values = {**vars(evaluation.case)}
    if change == "gate":
        values["gate"] = '{"confidence": 0.9}'
    if change == "champion":
        values["champion"] = Champion(version=VERSION)
    if change == "source":
        monkeypatch.setattr("components.evaluate.step.package_digest", lambda name: "changed")
    if change == "damaged":
        (tmp_path / "model" / "evaluated.json").write_text("{")

    evaluate_model(Case(**values), image="i:2" if change == "image" else "i:1")

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


def test_metrics_and_the_confusion_matrix_are_metadata_and_files(tmp_path):
    content = ten_classes() | {"workload": "mnist", "num_examples": 10, "num_unlabelled": 0}
    content["metrics"] = {"accuracy": 0.8, "loss": 0.5, "auc": None}
    points = {"false_positive": [0.0, 1.0], "true_positive": [0.0, 1.0], "thresholds": [1.0, 0.5]}
    content["curves"] = {"roc": points}
    metrics = Metrics(name="metrics", uri=str(tmp_path / "new" / "metrics"))
    confusion = ClassificationMetrics(name="confusion", uri=str(tmp_path / "confusion"))

    publish(
        Evaluated(content=content, golden=GOLDEN, latency={"latency_ms_p99": 2.5}),
        metrics=metrics,
        confusion=confusion,
        latency=Metrics(name="latency", uri=str(tmp_path / "latency")),
        golden_path=str(tmp_path / "golden"),
        report_path=str(tmp_path / "report.html"),
        evaluation_path=str(tmp_path / "evaluation.json"),
    )

    expected = {"accuracy": 0.8, "loss": 0.5, "num_examples": 10}
    assert metrics.metadata == expected
    written = json.loads((tmp_path / "new" / "metrics").read_text())
    assert {name: written[name] for name in expected} == expected
    logged = confusion.metadata["confusionMatrix"]
    assert [row["row"] for row in logged["rows"]] == content["confusion"]
    assert [spec["displayName"] for spec in logged["annotationSpecs"]] == content["labels"]
    assert json.loads((tmp_path / "confusion").read_text())["labels"] == content["labels"]
    assert len(confusion.metadata["confidenceMetrics"]) == 2
    assert json.loads((tmp_path / "latency").read_text()) == {"latency_ms_p99": 2.5}
