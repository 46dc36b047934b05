"""The tasks of a run as a table."""

from rich.table import Table
from rich.text import Text

from components.run_summary.summary import Summary

MOST_DRIFT = 3  # features that a run's end shows
COLOURS = {"SUCCEEDED": "green", "FAILED": "red", "CANCELLED": "yellow"}


def task_table(summary: Summary) -> Table:
    """The tasks with their states and seconds."""
    table = Table(box=None, pad_edge=False)
    table.add_column("task")
    table.add_column("state")
    table.add_column("seconds", justify="right")
    for task in summary.tasks:
        state = task["state"].lower().replace("_", " ") + (" (cached)" if task["cached"] else "")
        style = COLOURS.get(task["state"], "dim")
        table.add_row(task["name"], Text(state, style=style), f"{task['seconds']:.1f}")
    table.add_row("whole run", Text(summary.state.lower(), style="bold"), f"{summary.seconds:.1f}")
    return table
