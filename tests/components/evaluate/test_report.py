import base64
import dataclasses
import io
import json
import math
from html import unescape
from types import SimpleNamespace

import numpy as np
import PIL.Image
import pytest

from components.evaluate.assess import golden_predictions
from components.evaluate.content import image_uri, roc_curve
from components.evaluate.held_out import HeldOut, choose_golden, find_largest
from components.evaluate.report import render_report
from components.evaluate.thresholds import Judgement
from tests.support.data.held_out import held_out
from tests.support.data.report_files import ten_classes
from trainer.workloads import Classes

pytestmark = pytest.mark.fast

LABELS = ["cat", "<dog>", "owl"]


def of_images(labels: list[int], predicted: list[int], confidence: list[float]) -> HeldOut:
    probabilities = np.zeros((len(labels), 3), np.float32)
    probabilities[np.arange(len(labels)), predicted] = confidence
    images = np.arange(len(labels) * 4, dtype=np.uint8).reshape(-1, 2, 2)
    return held_out(
        labels,
        probabilities,
        label=Classes(),
        names=LABELS,
        golden=[0],
        rows={index: {"image": image} for index, image in enumerate(images)},
        format_instance=lambda row: {name: value.tolist() for name, value in row.items()},
    )


class ConstantPredictor:
    workload = SimpleNamespace(parse_instances=lambda instances: {"image": np.array(instances)})

    def predict_batch(self, features: dict) -> dict:
        return {"class": np.ones(len(features["image"]))}

    def predictions_of(self, outputs: dict) -> list[dict]:
        prediction = {"class": 1, "label": "<dog>", "probabilities": [0.1, 0.7, 0.2]}
        return [prediction] * len(outputs["class"])


def test_golden_examples_hold_each_class_once_and_fill_up():
    labels = [index // 8 % 3 for index in range(100)]
    assert choose_golden(labels, 10) == [0, 8, 16, 1, 2, 3, 4, 5, 6, 7]


@pytest.mark.parametrize(
    ("labels", "chosen"),
    [([1, 1], [0, 1]), ([2, 0, 1, 1], [1, 2, 0]), ([], [])],
    ids=["few", "more classes than golden examples", "none"],
)
def test_a_small_test_split_has_fewer_golden_examples(labels, chosen):
    assert choose_golden(labels, 3) == chosen


def test_golden_predictions_are_json_for_an_endpoint():
    data = of_images([2], [1], [0.9])
    golden = golden_predictions(data, ConstantPredictor())
    assert json.loads(json.dumps(golden)) == {
        "instances": [{"image": [[0, 1], [2, 3]]}],
        "predictions": [{"class": 1, "label": "<dog>", "probabilities": [0.1, 0.7, 0.2]}],
        "labels": ["owl"],
    }


def test_the_most_confident_mistakes_come_first():
    data = of_images([0, 1, 2, 0], [1, 1, 0, 2], [0.6, 0.9, 0.8, 0.7])
    sizes = data.label.error_sizes(data.predictions, data.labels)
    assert find_largest(sizes, 24) == [2, 3, 0]
    assert find_largest(sizes, 2) == [2, 3]


def test_the_page_has_the_verdict_and_the_sections_of_a_run():
    content = {**ten_classes(), "workload": "mnist", "num_unlabelled": 3, "num_mistakes": 500}
    judgement = Judgement(is_passed=False, reasons=("accuracy 0.8 is below <1>",))

    page = render_report({**content, "checks": []}, judgement)

    for text in (
        "<title>mnist: failed</title>",
        "&lt;1&gt;",
        "left out, without a label",
        "Metrics of the test split",
        "Confusion matrix",
        "500 in total",
    ):
        assert text in page
    for text in ("http://", "https://", "<script", 'src="/', "$"):
        assert text not in page
    found = render_report(content, judgement)
    assert content["checks"]
    assert all(check["text"] in unescape(found) for check in content["checks"])


def test_two_classes_have_a_roc_curve():
    probabilities = np.array([[0.9, 0.1], [0.4, 0.6], [0.6, 0.4], [0.1, 0.9]], np.float32)
    data = dataclasses.replace(
        of_images([0, 0, 1, 1], [0, 0, 0, 0], [1, 1, 1, 1]),
        names=["no", "yes"],
        predictions=probabilities,
    )
    curve = roc_curve(data)
    assert curve["false_positive"] == [0, 0, 0.5, 0.5, 1]
    assert curve["true_positive"] == [0, 0.5, 0.5, 1, 1]


@pytest.mark.parametrize("labels", [[0, 1], [1, 1]], ids=["three classes", "one class"])
def test_without_both_of_two_classes_there_is_no_roc_curve(labels):
    data = of_images(labels, [0, 0], [1, 1])
    if labels == [1, 1]:
        two = np.full((2, 2), 0.5, np.float32)
        data = dataclasses.replace(data, names=["no", "yes"], predictions=two)
    assert roc_curve(data) is None


def test_a_mistake_is_shown_with_its_pixels():
    for shape, mode in (((2, 3), "L"), ((2, 3, 3), "RGB")):
        image = np.arange(math.prod(shape), dtype=np.uint8).reshape(shape)
        kind, _, encoded = image_uri({"image": image}).partition(",")
        assert kind == "data:image/png;base64"
        shown = PIL.Image.open(io.BytesIO(base64.b64decode(encoded)))
        assert shown.mode == mode
        np.testing.assert_array_equal(np.asarray(shown), image)
