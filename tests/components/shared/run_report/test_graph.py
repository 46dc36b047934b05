import pytest

from components.shared.run_report.graph import dependencies, draw_graph, nodes_of
from tests.support.data.report_files import run_with_files

pytestmark = pytest.mark.fast


@pytest.fixture
def job(tmp_path):
    return run_with_files(tmp_path, evaluation=None)


def group(**tasks):
    """Return a graph; of each task the component and the tasks before it."""
    return {
        "dag": {
            "tasks": {
                name: {"componentRef": {"name": component}, "dependentTasks": list(before)}
                for name, (component, *before) in tasks.items()
            }
        }
    }


def test_tasks_in_groups_depend_on_the_tasks_before_the_group():
    """A group stands for its first tasks, and its last ones; indirect dependencies are left out."""
    spec = {
        "root": group(exit=("step", "run"), run=("run",)),
        "components": {
            "step": {"executorLabel": "e"},
            "run": group(a=("step",), b=("step", "a"), c=("inner", "a", "b"), d=("step", "c")),
            "inner": group(e=("step",), f=("step",), g=("step", "e")),
        },
    }

    assert dependencies(spec) == {
        "a": set(),
        "b": {"a"},
        "e": {"b"},
        "f": {"b"},
        "g": {"e"},
        "d": {"f", "g"},
        "exit": {"d"},
    }


def test_nodes_have_times_and_earlier_dependencies(job):
    nodes = nodes_of(job)
    by_name = {node.name: node for node in nodes}

    assert (by_name["train"].start, by_name["train"].seconds) == (21.0, 59.0)
    assert by_name["prepare-examples"].is_cached
    assert all(parent < place for place, node in enumerate(nodes) for parent in node.after)


def test_no_line_runs_through_another_task(job):
    """In its lane a line may meet only the tasks at its ends."""
    nodes = nodes_of(job)
    drawn = draw_graph(nodes)

    assert drawn.count("<circle") == len(nodes) == drawn.count('class="title"')
    assert drawn.count('class="edge"') == sum(len(node.after) for node in nodes)
    assert "59.0 s" in drawn
    assert "cached" in drawn
    assert nodes_of({}) == []
