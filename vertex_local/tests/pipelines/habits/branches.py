"""Conditions: If, Elif, Else, OneOf, and the `Condition` of old versions."""

from kfp import dsl

from vertex_local.tests.pipelines.habits.steps import add, fail, is_even, read, say, write


@dsl.pipeline(name="branches")
def branches(
    side: str = "tails",
    a: int = 1,
    b: int = 2,
    flag: bool = True,
    name: str = "x",
    ratio: float = 2.0,
    text: str = "2",
):
    flipped = say(text=side)
    with dsl.If(flipped.output == "heads"):
        first, file = say(text="heads!"), write(text="heads.")
    with dsl.Elif(flipped.output == "tails"):
        second, other = say(text="tails!"), write(text="tails.")
    with dsl.Else():
        third, last = say(text="edge!"), write(text="edge.")
    parameter = dsl.OneOf(first.output, second.output, third.output)
    say(text=parameter).set_display_name("one of parameters")
    artifact = dsl.OneOf(file.outputs["file"], other.outputs["file"], last.outputs["file"])
    read(file=artifact).set_display_name("one of artifacts")

    with dsl.If(a == 1):
        with dsl.If(b == 1):
            first = say(text="1 1")
        with dsl.Else():
            second = say(text="1 2")
        inner = say(text=dsl.OneOf(first.output, second.output))
    with dsl.Else():
        outer = say(text="0")
    say(text=dsl.OneOf(inner.output, outer.output)).set_display_name("one of nested")

    counted = add(a=3)
    with dsl.If(counted.output > 3), dsl.If(flag == True):
        with dsl.If(name != "y"):
            say(text="deep").set_display_name("nested")
        with dsl.Else():
            fail()
    with dsl.If(counted.output <= 3):
        fail()

    with dsl.Condition(is_even(number=4).output == True, name="even"):
        say(text="even").set_display_name("old")

    with dsl.If(flag == False):
        fail()
    with dsl.If(ratio >= 2), dsl.If(text == "2"):
        say(text="right").set_display_name("numbers and texts")


@dsl.pipeline(name="chosen")
def chosen(side: str) -> str:
    with dsl.If(side == "heads"):
        first = say(text="heads!")
    with dsl.Else():
        second = say(text="tails!")
    return dsl.OneOf(first.output, second.output)


@dsl.pipeline(name="returned")
def returned(side: str = "heads"):
    say(text=chosen(side=side).output).set_display_name("one of returned")


EXPECTED = {
    branches: {
        "one of parameters": "tails!",
        "one of artifacts": "tails.",
        "one of nested": "1 2",
        "nested": "deep",
        "old": "even",
        "numbers and texts": "right",
    },
    returned: {"one of returned": "heads!"},
}
