import pytest

from components.shared.vertex.task_details import leaf_tasks

pytestmark = pytest.mark.fast


def test_tasks_have_one_order_in_whichever_order_a_service_returns_them():
    inner = {"b": {"componentRef": {"name": "c"}, "dependentTasks": ["d"]}}
    inner |= {name: {"componentRef": {"name": "c"}} for name in "da"}
    for names in ("bda", "adb"):
        tasks = {name: inner[name] for name in names}
        spec = {"root": {"dag": {"tasks": tasks}}, "components": {"c": {}}}
        assert list(leaf_tasks({"pipelineSpec": spec})) == ["a", "d", "b"]
