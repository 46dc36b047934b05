import dataclasses
import io

import pytest
from rich.console import Console

from components.shared.vertex.task_details import TaskView
from pipelines.runs.output import display
from pipelines.runs.output.display import Display
from pipelines.runs.view import RunView
from trainer.runtime.progress import Progress

pytestmark = pytest.mark.fast


def running(step: int) -> RunView:
    progress = Progress(
        replica="chief/0",
        step=step,
        total_steps=100,
        loss=0.5,
        accuracy=0.8,
        examples_per_second=1000,
        step_ms=10.0,
        seconds_left=3,
    )
    return RunView(state="RUNNING", tasks=(), outputs={}, training=progress)


@pytest.mark.parametrize(("interval_seconds", "shown"), [(0.0, [10, 20]), (60.0, [10])])
def test_progress_is_shown_at_intervals_and_only_when_changed(monkeypatch, interval_seconds, shown):
    monkeypatch.setattr(display, "PLAIN_INTERVAL_SECONDS", interval_seconds)
    written = io.StringIO()
    plain = Display(Console(file=written, width=200))
    for step in (10, 10, 20, 20):
        plain.show(running(step))
    assert [f"step {step}/100" in written.getvalue() for step in (10, 20)] == [
        step in shown for step in (10, 20)
    ]
    assert len(written.getvalue().splitlines()) == len(shown)


def test_warning_is_shown_once():
    written = io.StringIO()
    plain = Display(Console(file=written, width=200))
    view = dataclasses.replace(running(10), warnings=("open [to] all",))
    for one in (running(10), view, view, dataclasses.replace(view, training=None)):
        plain.show(one)
    assert written.getvalue().count("warning: open [to] all") == 1


def test_interrupt_during_the_displays_start_stops_it(monkeypatch):
    def interrupt(_thread) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("rich.live._RefreshThread.start", interrupt)
    live = display.LiveDisplay(Console(file=io.StringIO(), force_terminal=True))

    with pytest.raises(KeyboardInterrupt):
        live.__enter__()

    assert not live.live.live.is_started


def test_the_reason_why_a_cached_step_was_executed_is_shown():
    written = io.StringIO()
    note = "its cached output was dropped: /runs/[one]/a has changed or is missing"
    task = TaskView(name="prepare-examples", state="SUCCEEDED", seconds=2.1, note=note)
    plain = Display(Console(file=written, width=40))
    plain.show(dataclasses.replace(running(10), tasks=(task,)))
    assert f"prepare-examples     2.1 s; {note}\n" in written.getvalue()


def test_each_task_has_one_line_and_the_end_of_a_training_none():
    written = io.StringIO()
    lines = Display(Console(file=written, width=40))
    for state in ("RUNNING", "RUNNING", "CANCELLED"):
        task = TaskView(name="train", state=state, seconds=2.0)
        lines.show(RunView(state="RUNNING", tasks=(task,), outputs={}))
    assert written.getvalue() == "  ✗ train                2.0 s\n"


def test_the_live_line_of_a_training_is_whole_in_any_terminal():
    console = Console(file=io.StringIO(), force_terminal=True, width=80)
    live, tasks = display.LiveDisplay(console), []
    for name in ("prepare-examples", "train"):
        tasks.append(TaskView(name=name, state="RUNNING"))
    live.show(dataclasses.replace(running(10), tasks=tuple(tasks)))
    console.print(live.live.make_tasks_table(live.live.tasks))
    shown = console.file.getvalue()
    assert "prepare-examples" in shown
    assert "step 10/100 loss 0.5000 accuracy 0.8000" in shown
    assert "0:03 left" in shown
