"""Exit tasks, failures, and tasks that run in spite of them."""

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


def exit_after(name: str):
    """Return an exit handler whose task returns the state of the handler's group."""
    return dsl.ExitHandler(final().set_display_name(name), name=name.replace(" ", "-"))


@dsl.pipeline(name="successes")
def successes(
    go: str = "yes",
    none: list = [],  # noqa: B006
    many: list = 10 * ["a", "b"],
):
    with exit_after("first"):
        say(text="one")
    with exit_after("loop and condition"):
        with dsl.ParallelFor(["a", "b"]) as text:
            said = say(text=text)
        with dsl.If(go == "yes"):
            join(texts=dsl.Collected(said.output))
    for name, items in (("no items", none), ("many items", many)):
        with exit_after(name), dsl.ParallelFor(items) as text:
            say(text=text)

    said = say(text="fine")
    noted = note(message=said.output, more="said").ignore_upstream_failure()
    noted.set_display_name("in spite of no failure")
    made = write(text="made")
    noted = note_file(file=made.outputs["file"]).ignore_upstream_failure()
    say(text=noted.output).set_display_name("file in spite of no failure")


@dsl.pipeline(name="at-the-end")
def at_the_end(status: dsl.PipelineTaskFinalStatus):
    ended = state_of(status=status)
    with dsl.If(ended.output == "FAILED"):
        say(text="failed indeed").set_display_name("exit pipeline")


@dsl.pipeline(name="failures")
def failures():
    with dsl.ExitHandler(at_the_end(), name="pipeline"):
        fail(message="bad")
    with dsl.ExitHandler(tidy().set_display_name("without status"), name="loop"):
        with dsl.ParallelFor(["a", "b"]) as text:
            fail(message=text)
    with dsl.ExitHandler(tidy().set_display_name("after retries"), name="retries"):
        fail(message="bad").set_retry(num_retries=1, backoff_duration="0s", backoff_factor=1)

    noted = note(message=fail().output, more="said").ignore_upstream_failure()
    noted.set_display_name("output in spite of failure")
    noted = note(message="given", more="on").after(fail())
    noted.ignore_upstream_failure().set_display_name("after in spite of failure")
    failed = fail_file()
    noted = note_file(file=failed.outputs["file"]).ignore_upstream_failure()
    noted.set_display_name("file in spite of failure")
    read(file=failed.outputs["file"])
    say(text="independent").set_display_name("independent")


@dsl.component(**STEP)
def fail_for(text: str, bad: str = "3"):
    if text == bad:
        raise ValueError(f"{text} is bad")


@dsl.pipeline(name="one-bad-item")
def one_bad_item(texts: list = ["1", "2", "3", "4"]):  # noqa: B006
    with exit_after("result"), dsl.ParallelFor(texts) as text:
        fail_for(text=text)


GOOD = '["SUCCEEDED", null, null]'
SUCCEEDING = {
    successes: {
        "first": GOOD,
        "loop and condition": GOOD,
        "no items": GOOD,
        "many items": GOOD,
        "in spite of no failure": "fine said",
        "file in spite of no failure": "made",
    }
}
FAILING = {
    failures: {
        "exit pipeline": "failed indeed",
        "without status": "tidied",
        "after retries": "tidied",
        "output in spite of failure": "nothing said",
        "after in spite of failure": "given on",
        "file in spite of failure": "none",
        "independent": "independent",
    },
    one_bad_item: {
        "result": '["FAILED", 9, "The DAG failed because some tasks failed. The failed tasks are: '
        "[fail-for in for-loop-2-iteration-2].\\nfail-for in for-loop-2-iteration-2: "
        "(bad='3', text='3') the step exited"
    },
}
