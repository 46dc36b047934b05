"""Exit tasks, failures, and tasks that run in spite of them.

`EXPECTED` says how each run ends, and what its "result" returns.
"""

from kfp import dsl

from vertex_local.tests.pipelines.habits.steps import (
    STEP,
    fail,
    fail_file,
    final,
    join,
    note,
    note_file,
    read,
    say,
    state_of,
    tidy,
    write,
)


@dsl.pipeline(name="exit-after-success")
def exit_after_success():
    with dsl.ExitHandler(final().set_display_name("result")):
        say(text="fine")


@dsl.pipeline(name="exit-after-failure")
def exit_after_failure():
    with dsl.ExitHandler(final().set_display_name("result")):
        fail(message="bad")


@dsl.pipeline(name="at-the-end")
def at_the_end(status: dsl.PipelineTaskFinalStatus):
    ended = state_of(status=status)
    with dsl.If(ended.output == "FAILED"):
        say(text="failed indeed").set_display_name("result")


@dsl.pipeline(name="exit-pipeline")
def exit_pipeline():
    with dsl.ExitHandler(at_the_end()):
        fail(message="bad")


@dsl.pipeline(name="exit-without-status")
def exit_without_status():
    with dsl.ExitHandler(tidy().set_display_name("result")):
        fail(message="bad")


@dsl.pipeline(name="exit-handlers-in-a-row")
def two_exit_handlers():
    with dsl.ExitHandler(final(), name="first"):
        say(text="one")
    with dsl.ExitHandler(final().set_display_name("result"), name="second"):
        say(text="two")


@dsl.pipeline(name="exit-after-loop-and-condition")
def exit_after_loop(go: str = "yes"):
    with dsl.ExitHandler(final().set_display_name("result")):
        with dsl.ParallelFor(["a", "b"]) as text:
            said = say(text=text)
        with dsl.If(go == "yes"):
            join(texts=dsl.Collected(said.output))


@dsl.pipeline(name="exit-after-failure-in-loop")
def exit_after_failure_in_loop():
    with dsl.ExitHandler(tidy().set_display_name("result")):
        with dsl.ParallelFor(["a", "b"]) as text:
            fail(message=text)


@dsl.pipeline(name="exit-after-retries")
def exit_after_retries():
    with dsl.ExitHandler(tidy().set_display_name("result")):
        fail(message="bad").set_retry(num_retries=1, backoff_duration="0s", backoff_factor=1)


@dsl.pipeline(name="ignore-upstream-failure")
def ignore_upstream_failure():
    failed = fail()
    note(message=failed.output, more="said").ignore_upstream_failure().set_display_name("result")


@dsl.pipeline(name="ignore-upstream-success")
def ignore_upstream_success():
    said = say(text="fine")
    note(message=said.output, more="said").ignore_upstream_failure().set_display_name("result")


@dsl.pipeline(name="ignore-upstream-failure-after")
def ignore_upstream_failure_after():
    noted = note(message="given", more="on").after(fail())
    noted.ignore_upstream_failure().set_display_name("result")


@dsl.pipeline(name="ignore-upstream-failure-artifact")
def ignore_upstream_failure_artifact():
    failed = fail_file()
    note_file(file=failed.outputs["file"]).ignore_upstream_failure().set_display_name("result")


@dsl.pipeline(name="ignore-upstream-success-artifact")
def ignore_upstream_success_artifact():
    made = write(text="made")
    noted = note_file(file=made.outputs["file"]).ignore_upstream_failure()
    say(text=noted.output).set_display_name("result")


@dsl.pipeline(name="tasks-after-a-failure")
def after_a_failure():
    """Tasks that do not depend on the failed one still run."""
    failed = fail_file()
    read(file=failed.outputs["file"])
    say(text="independent").set_display_name("result")


@dsl.component(**STEP)
def fail_for(text: str, bad: str = "3"):
    if text == bad:
        raise ValueError(f"{text} is bad")


def looping(name: str, items: list):
    """Return a pipeline with a loop over a parameter in an ExitHandler."""

    @dsl.pipeline(name=name)
    def made(texts: list = items):
        with dsl.ExitHandler(final().set_display_name("result")), dsl.ParallelFor(texts) as text:
            fail_for(text=text)

    return made


exit_after_default_items = looping("exit-after-default-items", ["a", "b"])
exit_after_no_items = looping("exit-after-no-items", [])
exit_after_40_items = looping("exit-after-40-items", [f"item {n}" for n in range(40)])
exit_after_one_bad_item = looping("exit-after-one-bad-item", ["1", "2", "3", "4"])

EXPECTED = {
    "exit_after_default_items": ("SUCCEEDED", '["SUCCEEDED", null, null]'),
    "exit_after_no_items": ("SUCCEEDED", '["SUCCEEDED", null, null]'),
    "exit_after_40_items": ("SUCCEEDED", '["SUCCEEDED", null, null]'),
    "exit_after_one_bad_item": (
        "FAILED",
        '["FAILED", 9, "The DAG failed because some tasks failed. The failed tasks are: '
        "[fail-for in for-loop-2-iteration-2].\\nfail-for in for-loop-2-iteration-2: "
        "(bad='3', text='3') the step exited",
    ),
    "exit_after_success": ("SUCCEEDED", '["SUCCEEDED", null, null]'),
    "exit_after_failure": ("FAILED", '["FAILED", 9, "The DAG failed because some tasks failed.'),
    "exit_pipeline": ("FAILED", "failed indeed"),
    "exit_without_status": ("FAILED", "tidied"),
    "two_exit_handlers": ("SUCCEEDED", '["SUCCEEDED", null, null]'),
    "exit_after_loop": ("SUCCEEDED", '["SUCCEEDED", null, null]'),
    "exit_after_failure_in_loop": ("FAILED", "tidied"),
    "exit_after_retries": ("FAILED", "tidied"),
    "ignore_upstream_failure": ("FAILED", "nothing said"),
    "ignore_upstream_success": ("SUCCEEDED", "fine said"),
    "ignore_upstream_failure_after": ("FAILED", "given on"),
    "ignore_upstream_failure_artifact": ("FAILED", "none"),
    "ignore_upstream_success_artifact": ("SUCCEEDED", "made"),
    "after_a_failure": ("FAILED", "independent"),
}
