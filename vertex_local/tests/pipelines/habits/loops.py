"""Loops, and their collected outputs."""

from kfp import dsl
from kfp.dsl import Dataset, Input

from vertex_local.tests.pipelines.habits.steps import (
    STEP,
    add,
    is_even,
    join,
    make_dicts,
    make_list,
    read,
    read_all,
    say,
    total,
    write,
)


@dsl.pipeline(name="loop-collected")
def loop_collected():
    with dsl.ParallelFor([1, 2, 3]) as number:
        added = add(a=number)
    total(numbers=dsl.Collected(added.output)).set_display_name("result")


@dsl.pipeline(name="loop-of-output")
def loop_of_output():
    with dsl.ParallelFor(make_list(count=4).output, parallelism=1) as number:
        added = add(a=number, b=10)
    total(numbers=dsl.Collected(added.output)).set_display_name("result")


@dsl.pipeline(name="loop-of-parameter")
def loop_of_parameter(texts: list = ["a", "b"]):  # noqa: B006
    with dsl.ParallelFor(texts) as text:
        said = say(text=text)
    join(texts=dsl.Collected(said.output)).set_display_name("result")


@dsl.pipeline(name="loop-of-output-dicts")
def loop_of_output_dicts():
    with dsl.ParallelFor(make_dicts().output) as one:
        said = add(a=one.size, b=1)
    total(numbers=dsl.Collected(said.output)).set_display_name("result")


@dsl.pipeline(name="loop-artifacts")
def loop_artifacts():
    with dsl.ParallelFor(["a", "b", "c"]) as text:
        written = write(text=text)
    read_all(files=dsl.Collected(written.outputs["file"])).set_display_name("result")


@dsl.pipeline(name="many-files")
def many_files() -> list[Dataset]:
    with dsl.ParallelFor(["a", "b"]) as text:
        written = write(text=text)
    return dsl.Collected(written.outputs["file"])


@dsl.pipeline(name="loop-over-artifacts")
def loop_over_artifacts():
    with dsl.ParallelFor(many_files().output) as file:
        content = read(file=file)
    join(texts=dsl.Collected(content.output)).set_display_name("result")


@dsl.pipeline(name="loop-empty")
def loop_empty(texts: list = []):  # noqa: B006
    with dsl.ParallelFor(texts) as text:
        said = say(text=text)
    join(texts=dsl.Collected(said.output)).set_display_name("result")


@dsl.pipeline(name="loop-with-condition")
def loop_with_condition():
    with dsl.ParallelFor([1, 2, 3, 4]) as number, dsl.If(number > 2):
        added = add(a=number)
    total(numbers=dsl.Collected(added.output)).set_display_name("result")


@dsl.pipeline(name="loop-with-condition-on-task")
def loop_with_condition_on_task():
    with dsl.ParallelFor([1, 2, 3, 4]) as number:
        even = is_even(number=number)
        with dsl.If(even.output == True):
            added = add(a=number)
    total(numbers=dsl.Collected(added.output)).set_display_name("result")


@dsl.pipeline(name="loop-artifacts-with-condition")
def loop_artifacts_with_condition():
    with dsl.ParallelFor(["a", "b", "c"]) as text, dsl.If(text != "b"):
        written = write(text=text)
    read_all(files=dsl.Collected(written.outputs["file"])).set_display_name("result")


@dsl.pipeline(name="loop-one-of")
def loop_one_of():
    with dsl.ParallelFor([1, 2, 3]) as number:
        even = is_even(number=number)
        with dsl.If(even.output == True):
            first = say(text="even")
        with dsl.Else():
            second = say(text="odd")
        said = say(text=dsl.OneOf(first.output, second.output))
    join(texts=dsl.Collected(said.output)).set_display_name("result")


@dsl.pipeline(name="condition-around-loop")
def condition_around_loop(go: bool = True):
    with dsl.If(go == True):
        with dsl.ParallelFor(["a", "b"]) as text:
            said = say(text=text)
        join(texts=dsl.Collected(said.output)).set_display_name("result")


@dsl.pipeline(name="loop-of-list-in-dict")
def loop_of_subvariables(items: list = [{"label": "a", "size": 1}, {"label": "b", "size": 2}]):  # noqa: B006
    with dsl.ParallelFor(items) as item:
        named = say(text=item.label)
        added = add(a=item.size)
    read_both = join(texts=dsl.Collected(named.output))
    summed = total(numbers=dsl.Collected(added.output))
    say(text=f"{read_both.output}{summed.output}").set_display_name("result")


@dsl.pipeline(name="loops-nested-by-arguments")
def loops_nested():
    with dsl.ParallelFor([1, 2]) as outer:
        with dsl.ParallelFor([10, 20]) as inner:
            added = add(a=outer, b=inner)
        summed = total(numbers=dsl.Collected(added.output))
    total(numbers=dsl.Collected(summed.output)).set_display_name("result")


@dsl.pipeline(name="loops-nested-collected-once")
def loops_nested_collected_once():
    with dsl.ParallelFor(["a", "b"]) as outer:
        first = say(text=outer)
        with dsl.ParallelFor(["x", "y"]) as inner:
            second = say(text=inner).after(first)
    join(texts=dsl.Collected(second.output)).set_display_name("result")


@dsl.pipeline(name="loops-nested-artifacts")
def loops_nested_artifacts():
    with dsl.ParallelFor(["a", "b"]), dsl.ParallelFor(["x", "y"]) as inner:
        written = write(text=inner)
    read_all(files=dsl.Collected(written.outputs["file"])).set_display_name("result")


@dsl.pipeline(name="loop-nested-with-condition")
def loop_nested_with_condition():
    with dsl.ParallelFor([1, 2, 3]) as outer:
        even = is_even(number=outer)
        with dsl.If(even.output == False):
            with dsl.ParallelFor([10, 20]) as inner:
                added = add(a=outer, b=inner)
            summed = total(numbers=dsl.Collected(added.output))
    total(numbers=dsl.Collected(summed.output)).set_display_name("result")


@dsl.pipeline(name="loop-of-structures")
def loop_of_lists():
    with dsl.ParallelFor([[1, 2], [3, 4]]) as numbers:
        summed = total(numbers=numbers)
    total(numbers=dsl.Collected(summed.output)).set_display_name("result")


@dsl.pipeline(name="collected-used-twice")
def collected_used_twice():
    with dsl.ParallelFor([1, 2], name="mine", parallelism=5) as number:
        added = add(a=number)
    once = total(numbers=dsl.Collected(added.output))
    with dsl.If(once.output == 5):
        total(numbers=dsl.Collected(added.output)).set_display_name("result")


@dsl.pipeline(name="loop-over-lists-of-items")
def loop_over_lists_of_items(items: list = [{"size": 1, "more": [1, 2]}, {"size": 2, "more": [5]}]):  # noqa: B006
    with dsl.ParallelFor(items) as item:
        with dsl.ParallelFor(item.more) as number:
            added = add(a=number, b=item.size)
        summed = total(numbers=dsl.Collected(added.output))
    total(numbers=dsl.Collected(summed.output)).set_display_name("result")


@dsl.pipeline(name="loop-with-condition-on-field")
def loop_with_condition_on_field(items: list = [{"size": 1}, {"size": 2}]):  # noqa: B006
    with dsl.ParallelFor(items) as item:
        with dsl.If(item.size == 2):
            said = say(text=item.size)
    join(texts=dsl.Collected(said.output)).set_display_name("result")


@dsl.component(**STEP)
def make_paths() -> list:
    return ["/etc/passwd", "/etc/group"]


@dsl.component(**STEP)
def uris_of(things: Input[list[Dataset]]) -> str:
    return ",".join(thing.uri for thing in things)


@dsl.pipeline(name="importers-in-a-loop")
def importers_in_a_loop(paths: list = ["/etc/hostname", "/etc/hosts"]):  # noqa: B006
    with dsl.ParallelFor(paths) as path:
        one = dsl.importer(artifact_uri=path, artifact_class=Dataset)
    with dsl.ParallelFor(make_paths().output) as path:
        two = dsl.importer(artifact_uri=path, artifact_class=Dataset)
    first = uris_of(things=dsl.Collected(one.output))
    second = uris_of(things=dsl.Collected(two.output))
    say(text=f"{first.output};{second.output}").set_display_name("result")


@dsl.pipeline(name="loops-three-deep")
def loops_three_deep():
    with dsl.ParallelFor([1, 2]) as one:
        with dsl.ParallelFor([10, 20]) as two:
            with dsl.ParallelFor([100, 200]) as three:
                added = add(a=add(a=one, b=two).output, b=three)
            inner = total(numbers=dsl.Collected(added.output))
        outer = total(numbers=dsl.Collected(inner.output))
    total(numbers=dsl.Collected(outer.output)).set_display_name("result")


@dsl.component(**STEP)
def meet(folder: str, name: str, everybody: list) -> str:
    """Wait until all of them run."""
    import time
    from pathlib import Path

    Path(folder, f"meets-{name}").touch()
    deadline = time.monotonic() + 40
    while not all(Path(folder, f"meets-{other}").exists() for other in everybody):
        assert time.monotonic() < deadline, f"{name} waited for {everybody}"
        time.sleep(0.02)
    return name


@dsl.pipeline(name="tasks-that-meet")
def tasks_that_meet():
    everybody = ["server", "client", "a", "b", "c"]
    here = dsl.PIPELINE_ROOT_PLACEHOLDER
    server = meet(folder=here, name="server", everybody=everybody)
    meet(folder=here, name="client", everybody=everybody)
    with dsl.ParallelFor(["a", "b", "c"], parallelism=3) as name:
        met = meet(folder=here, name=name, everybody=everybody)
    joined = join(texts=dsl.Collected(met.output))
    say(text=f"{joined.output},{server.output}").set_display_name("result")


EXPECTED = {
    "tasks_that_meet": "a,b,c,server",
    "importers_in_a_loop": "/etc/hostname,/etc/hosts;/etc/passwd,/etc/group",
    "loops_three_deep": 2 * 2 * 3 + 2 * 2 * 30 + 2 * 2 * 300,
    "loop_over_lists_of_items": 12,
    "loop_with_condition_on_field": "2",
    "loop_collected": 9,
    "loop_of_output": 46,
    "loop_of_parameter": "a,b",
    "loop_of_output_dicts": 5,
    "loop_of_subvariables": "a,b5",
    "loop_of_lists": 10,
    "loops_nested": 66,
    "loops_nested_collected_once": "x-y,x-y",
    "loops_nested_artifacts": "x,y,x,y",
    "loop_nested_with_condition": 68,
    "loop_artifacts": "a,b,c",
    "loop_over_artifacts": "a,b",
    "loop_empty": "",
    "loop_with_condition": 9,
    "loop_with_condition_on_task": 8,
    "loop_artifacts_with_condition": "a,c",
    "loop_one_of": "odd,even,odd",
    "condition_around_loop": "a,b",
    "collected_used_twice": 5,
}
