import json
import math
import struct
import zlib
from dataclasses import dataclass, field
from types import SimpleNamespace

import numpy as np
import pytest
from kfp.dsl import ClassificationMetrics, Metrics

from components.evaluate.golden import choose_golden, find_mistakes, golden_predictions
from components.evaluate.held_out import Example
from components.evaluate.pictures import png
from components.evaluate.report import class_scores, render_report
from components.evaluate.step import log_confusion, log_metrics
from components.evaluate.thresholds import Judgement

LABELS = ["cat", "<dog>", "owl"]
EVALUATION = SimpleNamespace(
    num_examples=10,
    metrics={"accuracy": 0.8, "loss": 0.5},
    labels=LABELS,
    confusion=[[4, 1, 0], [1, 4, 0], [0, 0, 0]],
)


def example(index: int, label: int) -> Example:
    return Example(index=index, image=np.full((2, 2), index % 256, np.uint8), label=label)


@dataclass
class ConstantPredictor:
    """Takes every image for class 1, and counts the batches."""

    batches: list[int] = field(default_factory=list)

    def predict(self, instances: list) -> list[dict]:
        self.batches.append(len(instances))
        one = {"class": 1, "label": "<dog>", "probabilities": [0.1, 0.7, 0.2]}
        return [dict(one) for _ in instances]


def test_golden_examples_hold_each_class_once_and_fill_up_to_ten():
    chosen = choose_golden((example(index, index // 8 % 3) for index in range(100)), num_classes=3)
    assert [item.index for item in chosen] == [0, 8, 16, 1, 2, 3, 4, 5, 6, 7]


def test_no_more_test_examples_are_read_than_needed():
    taken = []
    examples = (taken.append(index) or example(index, index % 10) for index in range(1000))
    assert len(choose_golden(examples, num_classes=10)) == 10
    assert len(taken) == 10


def test_a_small_test_split_gives_fewer_golden_examples():
    chosen = choose_golden([example(0, 1), example(1, 1)], num_classes=3)
    assert [item.index for item in chosen] == [0, 1]


def test_golden_predictions_are_json_for_an_endpoint():
    golden = golden_predictions([example(3, 2)], ConstantPredictor(), LABELS)
    assert json.loads(json.dumps(golden)) == {
        "instances": [{"image": [[3, 3], [3, 3]]}],
        "predictions": [{"class": 1, "label": "<dog>", "probabilities": [0.1, 0.7, 0.2]}],
        "labels": ["owl"],
    }


def test_mistakes_are_looked_for_until_there_are_enough():
    predictor = ConstantPredictor()
    mistakes, num_searched = find_mistakes(
        (example(index, index % 2) for index in range(3000)), predictor
    )
    assert (len(mistakes), num_searched, predictor.batches) == (24, 47, [500])
    assert all(mistake.example.label == 0 for mistake in mistakes)


def test_the_search_for_mistakes_is_bounded():
    mistakes, num_searched = find_mistakes(
        (example(index, 1) for index in range(3000)), ConstantPredictor()
    )
    assert (mistakes, num_searched) == ([], 2000)


def test_class_scores_are_recall_and_precision():
    scores = class_scores([[3, 1, 0], [0, 2, 0], [0, 0, 0]])
    assert scores[:2] == [(0.75, 1.0), (1.0, pytest.approx(2 / 3))]
    assert all(math.isnan(score) for score in scores[2])


def test_the_report_is_one_escaped_page_that_needs_no_network():
    mistakes, num_searched = find_mistakes([example(0, 0), example(1, 1)], ConstantPredictor())
    page = render_report(
        "mnist",
        EVALUATION,
        Judgement(is_passed=False, reasons=("accuracy 0.8 is below <1>",)),
        mistakes=mistakes,
        num_searched=num_searched,
    )
    for text in ("failed", "80.00%", "&lt;dog&gt;", "&lt;1&gt;", "data:image/png;base64,", "n/a"):
        assert text in page
    for text in ("<dog>", "http://", "https://", "<script", 'src="/', "$"):
        assert text not in page


@pytest.mark.parametrize(("shape", "colour"), [((2, 3), 0), ((2, 3, 3), 2)], ids=["grey", "colour"])
def test_a_png_holds_the_pixels(shape, colour):
    image = np.arange(math.prod(shape), dtype=np.uint8).reshape(shape)
    data = png(image)
    width, height, depth, found_colour = struct.unpack(">IIBB", data[16:26])
    assert (width, height, depth, found_colour) == (3, 2, 8, colour)
    size = struct.unpack(">I", data[33:37])[0]
    rows = zlib.decompress(data[41 : 41 + size])
    assert rows == b"".join(b"\0" + row.tobytes() for row in image)


def test_metrics_are_metadata_and_a_file(tmp_path):
    artifact = Metrics(name="metrics", uri=str(tmp_path / "new" / "metrics"))
    log_metrics(artifact, EVALUATION)
    expected = {"accuracy": 0.8, "loss": 0.5, "num_examples": 10}
    assert artifact.metadata == expected
    assert json.loads((tmp_path / "new" / "metrics").read_text()) == expected


def test_the_confusion_matrix_is_metadata_and_a_file(tmp_path):
    artifact = ClassificationMetrics(name="confusion", uri=str(tmp_path / "confusion"))
    log_confusion(artifact, EVALUATION)
    logged = artifact.metadata["confusionMatrix"]
    assert [row["row"] for row in logged["rows"]] == EVALUATION.confusion
    assert [spec["displayName"] for spec in logged["annotationSpecs"]] == LABELS
    assert json.loads((tmp_path / "confusion").read_text())["labels"] == LABELS
