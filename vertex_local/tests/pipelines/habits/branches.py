"""Conditions: If, Elif, Else, OneOf."""

from kfp import dsl

from vertex_local.tests.pipelines.habits.steps import add, fail, flip, is_even, read, say, write


@dsl.pipeline(name="one-of-parameters")
def one_of_parameters(side: str = "tails"):
    flipped = flip(side=side)
    with dsl.If(flipped.output == "heads"):
        first = say(text="heads!")
    with dsl.Elif(flipped.output == "tails"):
        second = say(text="tails!")
    with dsl.Else():
        third = say(text="edge!")
    say(text=dsl.OneOf(first.output, second.output, third.output)).set_display_name("result")


@dsl.pipeline(name="one-of-artifacts")
def one_of_artifacts(side: str = "edge"):
    flipped = flip(side=side)
    with dsl.If(flipped.output == "heads"):
        first = write(text="heads!")
    with dsl.Elif(flipped.output == "tails"):
        second = write(text="tails!")
    with dsl.Else():
        third = write(text="edge!")
    found = dsl.OneOf(first.outputs["file"], second.outputs["file"], third.outputs["file"])
    read(file=found).set_display_name("result")


@dsl.pipeline(name="one-of-returned")
def chosen(side: str) -> str:
    with dsl.If(side == "heads"):
        first = say(text="heads!")
    with dsl.Else():
        second = say(text="tails!")
    return dsl.OneOf(first.output, second.output)


@dsl.pipeline(name="one-of-returned-outer")
def one_of_returned(side: str = "heads"):
    say(text=chosen(side=side).output).set_display_name("result")


@dsl.pipeline(name="one-of-nested")
def one_of_nested(a: int = 1, b: int = 2):
    with dsl.If(a == 1):
        with dsl.If(b == 1):
            first = say(text="1 1")
        with dsl.Else():
            second = say(text="1 2")
        inner = say(text=dsl.OneOf(first.output, second.output))
    with dsl.Else():
        outer = say(text="0")
    say(text=dsl.OneOf(inner.output, outer.output)).set_display_name("result")


@dsl.pipeline(name="nested-conditions")
def nested_conditions(a: int = 3, flag: bool = True, name: str = "x"):
    counted = add(a=a)
    with dsl.If(counted.output > 3), dsl.If(flag == True):
        with dsl.If(name != "y"):
            say(text="deep").set_display_name("result")
        with dsl.Else():
            fail()
    with dsl.If(counted.output <= 3):
        fail()


@dsl.pipeline(name="old-condition")
def old_condition():
    with dsl.Condition(is_even(number=4).output == True, name="even"):
        say(text="even").set_display_name("result")


@dsl.pipeline(name="bool-and-number-conditions")
def bools_and_numbers(yes: bool = False, ratio: float = 2.0, text: str = "2"):
    with dsl.If(yes == False):
        with dsl.If(ratio >= 2), dsl.If(text == "2"):
            say(text="right").set_display_name("result")
    with dsl.If(yes == True):
        fail()


EXPECTED = {
    "one_of_parameters": "tails!",
    "one_of_artifacts": "edge!",
    "one_of_returned": "heads!",
    "one_of_nested": "1 2",
    "nested_conditions": "deep",
    "old_condition": "even",
    "bools_and_numbers": "right",
}
