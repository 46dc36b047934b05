"""Nested pipelines."""

from typing import NamedTuple, Optional

from kfp import dsl
from kfp.dsl import Dataset, Input

from vertex_local.tests.pipelines.habits.steps import join, note, read, say, write


@dsl.pipeline(name="inner")
def inner(text: str, number: int = 5) -> NamedTuple("Outs", [("text", str), ("file", Dataset)]):
    said = say(text=f"{text}{number}")
    written = write(text=said.output)
    return NamedTuple("Outs", [("text", str), ("file", Dataset)])(
        said.output, written.outputs["file"]
    )


@dsl.pipeline(name="looping")
def looping(texts: list) -> list:
    with dsl.ParallelFor(texts) as text:
        said = say(text=text)
    return dsl.Collected(said.output)


@dsl.pipeline(name="optional-inner")
def optional_inner(message: str, more: Optional[str] = None) -> str:
    return note(message=message, more=more).output


@dsl.pipeline(name="reading")
def reading(file: Input[Dataset]) -> str:
    return read(file=file).output


@dsl.pipeline(name="artifact-of")
def artifact_of(text: str) -> str:
    return reading(file=inner(text=text).outputs["file"]).output


@dsl.pipeline(name="pipelines-in-a-pipeline")
def pipelines(number: int = 7, text: str = "outer", more: Optional[str] = None):
    """`number` and `text` are not those of `inner`."""
    one = inner(text="a")
    two = inner(text=one.outputs["text"], number=6)
    read(file=two.outputs["file"]).set_display_name("one after another")
    say(text=f"{one.outputs['text']}{number}").set_display_name("own defaults")

    made = inner(text=f"<{say(text='a').output}>")
    say(text=made.outputs["text"]).set_display_name("texts")

    with dsl.ParallelFor(["a", "b"]) as letter:
        made = inner(text=letter)
        with dsl.If(letter == "b"):
            deep = artifact_of(text=letter)
    join(texts=dsl.Collected(made.outputs["text"])).set_display_name("in a loop")
    join(texts=dsl.Collected(deep.output)).set_display_name("three deep")
    join(texts=looping(texts=["a", "b"]).output).set_display_name("that loops")

    one = optional_inner(message="a")
    two = optional_inner(message="b", more=more)
    three = optional_inner(message="c", more="d")
    join(texts=[one.output, two.output, three.output]).set_display_name("optional inputs")

    made = reading(file=write(text="content").outputs["file"])
    say(text=made.output).set_display_name("artifacts")


EXPECTED = {
    pipelines: {
        "one after another": "a56",
        "own defaults": "a57",
        "texts": "<a>5",
        "in a loop": "a5,b5",
        "three deep": "b5",
        "that loops": "a,b",
        "optional inputs": "a,b,c d",
        "artifacts": "content",
    }
}
