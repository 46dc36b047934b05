"""Reasons why a task runs again."""

from types import SimpleNamespace

import pytest

from pipelines.plan.reasons import changes, setting_changes
from vertex_local.rules.placeholders import Unknown
from vertex_local.rules.values import TaskValues

pytestmark = pytest.mark.fast

OLD, NEW = "spent-111111111111", "spent-222222222222"


@pytest.mark.parametrize(
    ("source", "command", "words"),
    [("a", "x", []), ("b", "x", ["Trainyard's source"]), ("a", "y", ["the step's code"])],
    ids=["only the folder", "Trainyard", "the step"],
)
def test_the_image_of_a_folders_code_is_no_reason_of_its_own(source, command, words):
    def task(workload: str, digit: str, word: str) -> SimpleNamespace:
        container = {"image": f"trainyard:src-{digit * 12}-{workload}", "command": [word]}
        parameters = {"workload": f"/state/code/{workload}"}
        return SimpleNamespace(component={}, container=container, inputs=TaskValues(parameters))

    found = changes(task(NEW, source, command), task(OLD, "a", "x"))
    assert found == [*words, "the workload's code"]


def test_another_plan_of_the_training_is_not_shown_in_full():
    def task(folder: str) -> SimpleNamespace:
        parameters = {"base_output_directory": folder, "worker_pool_specs": [{"folder": folder}]}
        inputs = TaskValues(parameters)
        return SimpleNamespace(component={}, container={"image": "i"}, inputs=inputs)

    assert changes(task("/b"), task("/a")) == ["another plan of the training"]


def test_settings_that_have_changed_are_named_although_other_inputs_are_unknown():
    now = {"train": '{"epochs": 2}', "input_fingerprint": Unknown("prepare")}
    before = {"train": '{"epochs": 1, "seed": 3}', "input_fingerprint": "a"}
    tasks = [SimpleNamespace(inputs=TaskValues(parameters)) for parameters in (now, before)]
    assert setting_changes(*tasks) == ["train.epochs 1 → 2", "train.seed 3 → none"]
