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


@dsl.pipeline(name="many-files")
def many_files() -> list[Dataset]:
    with dsl.ParallelFor(["a", "b"]) as text:
        written = write(text=text)
    return dsl.Collected(written.outputs["file"])


@dsl.pipeline(name="loops")
def loops(
    texts: list = ["a", "b"],  # noqa: B006
    none: list = [],  # noqa: B006
    items: list = [{"label": "a", "size": 1}, {"label": "b", "size": 2}],  # noqa: B006
):
    with dsl.ParallelFor([1, 2], name="mine", parallelism=5) as number:
        added = add(a=number)
    once = total(numbers=dsl.Collected(added.output))
    with dsl.If(once.output == 5):
        total(numbers=dsl.Collected(added.output)).set_display_name("collected twice")

    with dsl.ParallelFor(make_list(count=4).output, parallelism=1) as number:
        added = add(a=number, b=10)
    total(numbers=dsl.Collected(added.output)).set_display_name("of output")

    with dsl.ParallelFor(make_dicts().output) as one:
        added = add(a=one.size, b=1)
    total(numbers=dsl.Collected(added.output)).set_display_name("of dicts of output")

    for name, values in (("of parameter", texts), ("empty", none)):
        with dsl.ParallelFor(values) as text:
            said = say(text=text)
        join(texts=dsl.Collected(said.output)).set_display_name(name)

    with dsl.ParallelFor(items) as item:
        named = say(text=item.label)
        added = add(a=item.size)
        with dsl.If(item.size == 2):
            second = say(text=item.size)
    joined = join(texts=dsl.Collected(named.output))
    summed = total(numbers=dsl.Collected(added.output))
    say(text=f"{joined.output}{summed.output}").set_display_name("of fields")
    join(texts=dsl.Collected(second.output)).set_display_name("condition on field")

    with dsl.ParallelFor(["a", "b", "c"]) as text:
        written = write(text=text)
        with dsl.If(text != "b"):
            other = write(text=text)
    read_all(files=dsl.Collected(written.outputs["file"])).set_display_name("artifacts")
    some = read_all(files=dsl.Collected(other.outputs["file"]))
    some.set_display_name("artifacts with condition")

    with dsl.ParallelFor(many_files().output) as file:
        content = read(file=file)
    join(texts=dsl.Collected(content.output)).set_display_name("over artifacts")

    with dsl.ParallelFor([[1, 2], [3, 4]]) as numbers:
        summed = total(numbers=numbers)
    total(numbers=dsl.Collected(summed.output)).set_display_name("of lists")


@dsl.pipeline(name="loops-with-conditions")
def conditions(go: bool = True):
    with dsl.ParallelFor([1, 2, 3, 4]) as number:
        with dsl.If(number > 2):
            added = add(a=number)
        even = is_even(number=number)
        with dsl.If(even.output == True):
            first = say(text="even")
        with dsl.Else():
            second = say(text="odd")
        said = say(text=dsl.OneOf(first.output, second.output))
        with dsl.If(even.output == True, name="again"):
            more = add(a=number)
    total(numbers=dsl.Collected(added.output)).set_display_name("on number")
    total(numbers=dsl.Collected(more.output)).set_display_name("on task")
    join(texts=dsl.Collected(said.output)).set_display_name("one of")

    with dsl.If(go == True):
        with dsl.ParallelFor(["a", "b"]) as text:
            said = say(text=text)
        join(texts=dsl.Collected(said.output)).set_display_name("around loop")


@dsl.pipeline(name="nested-loops")
def nested(
    items: list = [{"size": 1, "more": [1, 2]}, {"size": 2, "more": [5]}],  # noqa: B006
):
    with dsl.ParallelFor([1, 2]) as one:
        with dsl.ParallelFor([10, 20]) as two:
            with dsl.ParallelFor([100, 200]) as three:
                added = add(a=add(a=one, b=two).output, b=three)
            inner = total(numbers=dsl.Collected(added.output))
        outer = total(numbers=dsl.Collected(inner.output))
    total(numbers=dsl.Collected(outer.output)).set_display_name("three deep")

    with dsl.ParallelFor(["a", "b"]) as outer:
        first = say(text=outer)
        with dsl.ParallelFor(["x", "y"]) as inner:
            second = say(text=inner).after(first)
            written = write(text=inner)
    join(texts=dsl.Collected(second.output)).set_display_name("collected once")
    read_all(files=dsl.Collected(written.outputs["file"])).set_display_name("artifacts")

    with dsl.ParallelFor([1, 2, 3]) as outer:
        even = is_even(number=outer)
        with dsl.If(even.output == False):
            with dsl.ParallelFor([10, 20]) as inner:
                added = add(a=outer, b=inner)
            summed = total(numbers=dsl.Collected(added.output))
    total(numbers=dsl.Collected(summed.output)).set_display_name("with condition")

    with dsl.ParallelFor(items) as item:
        with dsl.ParallelFor(item.more) as number:
            added = add(a=number, b=item.size)
        summed = total(numbers=dsl.Collected(added.output))
    total(numbers=dsl.Collected(summed.output)).set_display_name("over lists of items")


@dsl.component(**STEP)
def make_paths() -> list:
    return ["/etc/passwd", "/etc/group"]


@dsl.component(**STEP)
def uris_of(things: Input[list[Dataset]]) -> str:
    return ",".join(thing.uri for thing in things)


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


@dsl.pipeline(name="loops-of-others")
def others(paths: list = ["/etc/hostname", "/etc/hosts"]):  # noqa: B006
    for name, values in (("importers", paths), ("importers of output", make_paths().output)):
        with dsl.ParallelFor(values) as path:
            imported = dsl.importer(artifact_uri=path, artifact_class=Dataset)
        uris_of(things=dsl.Collected(imported.output)).set_display_name(name)

    everybody = ["server", "client", "a", "b", "c"]
    here = dsl.PIPELINE_ROOT_PLACEHOLDER
    server = meet(folder=here, name="server", everybody=everybody)
    meet(folder=here, name="client", everybody=everybody)
    with dsl.ParallelFor(["a", "b", "c"], parallelism=3) as name:
        met = meet(folder=here, name=name, everybody=everybody)
    joined = join(texts=dsl.Collected(met.output))
    say(text=f"{joined.output},{server.output}").set_display_name("tasks that meet")


EXPECTED = {
    loops: {
        "collected twice": 5,
        "of output": 46,
        "of dicts of output": 5,
        "of parameter": "a,b",
        "empty": "",
        "of fields": "a,b5",
        "condition on field": "2",
        "artifacts": "a,b,c",
        "artifacts with condition": "a,c",
        "over artifacts": "a,b",
        "of lists": 10,
    },
    conditions: {
        "on number": 9,
        "on task": 8,
        "one of": "odd,even,odd,even",
        "around loop": "a,b",
    },
    nested: {
        "three deep": 2 * 2 * 3 + 2 * 2 * 30 + 2 * 2 * 300,
        "collected once": "x-y,x-y",
        "artifacts": "x,y,x,y",
        "with condition": 68,
        "over lists of items": 12,
    },
    others: {
        "importers": "/etc/hostname,/etc/hosts",
        "importers of output": "/etc/passwd,/etc/group",
        "tasks that meet": "a,b,c,server",
    },
}
