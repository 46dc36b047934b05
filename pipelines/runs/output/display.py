"""Display of a running pipeline: live on a terminal, plain lines elsewhere."""

import re
import time
from typing import Self

from rich.console import Console
from rich.markup import escape
from rich.progress import Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

from components.shared.vertex.task_details import TaskView
from pipelines.runs.view import TRAINING_TASK, RunView
from trainer.runtime.progress import format_progress

PLAIN_INTERVAL_SECONDS = 5.0
RATE = re.compile(r" [\d,]+ examples/s [\d.]+ ms/step")
MARKS = {"SUCCEEDED": "[green]✓[/]", "FAILED": "[red]✗[/]", "CANCELLED": "[yellow]✗[/]"}


class Display:
    """A line for each task that has ended, and for training progress every few seconds."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._states: dict[str, str] = {}
        self._progress_at, self._progress = 0.0, ""
        self._warnings: tuple[str, ...] = ()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def show(self, view: RunView) -> None:
        """Print the changes since the last snapshot."""
        for task in view.tasks:
            if self._states.get(task.name) != task.state:
                self._states[task.name] = task.state
                self._show_task(task)
        for warning in view.warnings:
            if warning not in self._warnings:
                text = f"      [yellow]warning: {escape(warning)}[/]"
                self._console.print(text, highlight=False, soft_wrap=True)
        self._warnings = view.warnings
        self._show_training(view)

    def _show_task(self, task: TaskView) -> None:
        if task.state in MARKS:
            self._console.print(ended_line(task), highlight=False, soft_wrap=True)

    def _show_training(self, view: RunView) -> None:
        now = time.monotonic()
        progress = format_progress(view.training) if view.training else ""
        is_due = now - self._progress_at >= PLAIN_INTERVAL_SECONDS
        if progress and is_due and progress != self._progress:
            self._progress_at, self._progress = now, progress
            self._console.print(f"      {progress}", highlight=False, soft_wrap=True)


class LiveDisplay(Display):
    """A spinner for each running task, with progress for training."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self.live = Progress(
            SpinnerColumn(finished_text=" "),
            TextColumn("{task.description}"),
            TextColumn("{task.fields[note]}"),
            TimeElapsedColumn(),
            console=console,
            transient=True,
        )
        self._rows: dict[str, TaskID] = {}

    def __enter__(self) -> Self:
        try:
            self.live.start()
        except BaseException:  # Ctrl-C: the display must not draw over the prompt that follows
            self.live.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.live.stop()

    def _show_task(self, task: TaskView) -> None:
        if task.state == "RUNNING":
            self._rows[task.name] = self.live.add_task(task.name, total=None, note="")
        elif task.name in self._rows:
            self.live.remove_task(self._rows.pop(task.name))
        super()._show_task(task)

    def _show_training(self, view: RunView) -> None:
        row = self._rows.get(TRAINING_TASK)
        if row is not None and view.training:
            self.live.update(row, note=RATE.sub("", format_progress(view.training)))


def display_for(console: Console) -> Display:
    """Return a live display for a terminal, else a plain one."""
    return LiveDisplay(console) if console.is_terminal else Display(console)


def ended_line(task: TaskView) -> str:
    """Return the line of a task that has ended."""
    duration = "from the cache" if task.is_cached else f"{task.seconds:.1f} s"
    note = f"; {escape(task.note)}" if task.note else ""
    return f"  {MARKS[task.state]} {task.name:<20} {duration}{note}"
