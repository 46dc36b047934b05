"""Check of a model in its own prediction server, in every wire form."""

import json
import subprocess
import sys

import numpy as np
import psutil
import pytest

from components.check_model.step import wire_requests
from tests.support.untrained import export_untrained
from trainer.workloads import (
    Category,
    ImageFolder,
    Multilabel,
    Number,
    Records,
    Regression,
    Table,
    Text,
    Values,
    load_workload,
)
from trainer.workloads.description import describe, read_description

pytestmark = pytest.mark.timeout(120)

PROGRAM = """
import sys
from kfp.dsl import Artifact, Model
from components.check_model.component import check_model
model, golden = Model(uri=sys.argv[1]), Artifact(uri=sys.argv[2])
print(check_model.python_func(model=model, golden=golden))
"""
IMAGES = [np.full((28, 28), 7 * number, np.uint8) for number in range(3)]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """An untrained model and its offline predictions."""
    folder = tmp_path_factory.mktemp("model") / "model"
    predictor = export_untrained(folder)
    instances = [{"image": image.tolist()} for image in IMAGES]
    predictions = predictor.predict(instances)
    return folder, {"instances": instances, "predictions": predictions, "labels": ["0", "1", "2"]}


def check(tmp_path, folder, golden) -> subprocess.CompletedProcess:
    """Run the check in a process of its own: TensorFlow must not run before the fork."""
    path = tmp_path / "golden.json"
    path.write_text(json.dumps(golden))
    command = [sys.executable, "-c", PROGRAM, str(folder), str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    running = [process.info["cmdline"] or [] for process in psutil.process_iter(["cmdline"])]
    assert not any(str(path) in words for words in running), "the server is still running"
    return done


def test_predictions_are_as_offline_in_every_wire_form(tmp_path, model):
    done = check(tmp_path, *model)

    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == 3 * len(wire_requests(load_workload("mnist"), model[1]["instances"]))


def test_an_error_names_the_wire_form_in_one_line(tmp_path, model):
    folder, golden = model
    wrong = [{**one, "class": (one["class"] + 1) % 10} for one in golden["predictions"]]

    done = check(tmp_path, folder, {**golden, "predictions": wrong})

    assert done.returncode == 1
    assert "error: instances in the form 'object': instance 0" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr


def test_a_server_that_does_not_start_is_an_error(tmp_path, model):
    (tmp_path / "empty").mkdir()

    done = check(tmp_path, tmp_path / "empty", model[1])

    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("error: the prediction server")
    assert "code 1" in done.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("workload", "instance", "forms"),
    [
        (
            "mnist",
            {"image": IMAGES[1].tolist()},
            {"object", "rows", "flat", "base64", "png", "keyed"},
        ),
        (
            "cifar10",
            {"image": np.full((32, 32, 3), 9, np.uint8).tolist()},
            {"object", "rows", "flat", "base64", "png", "keyed"},
        ),
        ("taxi", {"trip_miles": 2.5, "company": "Blue, Inc."}, {"object", "nulls", "keyed"}),
        (
            Table(
                [Number("sizes", length=2), Category("tags", separator=";"), Text("note")],
                label=Regression("y"),
            ),
            {"sizes": [1.0, None], "tags": ["a", "b"], "note": "été"},
            {"object", "nulls", "keyed"},
        ),
        (
            Records(
                {"x": Values("float32", [3]), "name": Values("string")},
                label=Multilabel("y", values=("a", "b")),
                model=len,
            ),
            {"x": [1.5, 0.0, -1.0], "name": {"b64": "/w=="}},
            {"object", "keyed"},
        ),
        (
            ImageFolder((2, 3)),
            {"image": np.arange(18).reshape(2, 3, 3).tolist()},
            {"object", "rows", "flat", "base64", "png", "keyed"},
        ),
    ],
    ids=["mnist", "cifar10", "taxi", "table", "records", "images"],
)
def test_all_forms_of_an_instance_mean_the_same(workload, instance, forms):
    if isinstance(workload, str):
        loaded = load_workload(workload)
    else:  # as a server knows it, without the user's code
        described = describe(workload.with_name("own", "/no/such/folder"))
        loaded = read_description(json.loads(json.dumps(described)))

    found = wire_requests(loaded, [instance])

    assert set(found) == forms
    expected = loaded.parse_instance(instance)
    for [one] in found.values():
        for name, value in loaded.parse_instance(one).items():
            np.testing.assert_array_equal(value, expected[name])
