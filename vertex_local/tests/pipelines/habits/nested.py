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


@dsl.pipeline(name="pipeline-in-pipeline")
def pipeline_in_pipeline():
    one = inner(text="a")
    two = inner(text=one.outputs["text"], number=6)
    read(file=two.outputs["file"]).set_display_name("result")


@dsl.pipeline(name="pipeline-in-loop")
def pipeline_in_loop():
    with dsl.ParallelFor(["a", "b"]) as text:
        made = inner(text=text)
    join(texts=dsl.Collected(made.outputs["text"])).set_display_name("result")


@dsl.pipeline(name="pipeline-that-loops")
def looping(texts: list) -> list:
    with dsl.ParallelFor(texts) as text:
        said = say(text=text)
    return dsl.Collected(said.output)


@dsl.pipeline(name="pipeline-that-loops-outer")
def pipeline_that_loops():
    join(texts=looping(texts=["a", "b"]).output).set_display_name("result")


@dsl.pipeline(name="inner-defaults-not-taken-from-outside")
def defaults_of_inner(number: int = 7, text: str = "outer"):
    made = inner(text="mine")
    say(text=f"{made.outputs['text']}{number}").set_display_name("result")


@dsl.pipeline(name="texts-for-inner")
def texts_for_inner():
    made = inner(text=f"<{say(text='a').output}>")
    say(text=made.outputs["text"]).set_display_name("result")


@dsl.pipeline(name="optional-inner")
def optional_inner(message: str, more: Optional[str] = None) -> str:
    return note(message=message, more=more).output


@dsl.pipeline(name="optional-inputs-of-inner")
def optional_inputs_of_inner(more: Optional[str] = None):
    one = optional_inner(message="a")
    two = optional_inner(message="b", more=more)
    three = optional_inner(message="c", more="d")
    join(texts=[one.output, two.output, three.output]).set_display_name("result")


@dsl.pipeline(name="artifact-for-inner")
def reading(file: Input[Dataset]) -> str:
    return read(file=file).output


@dsl.pipeline(name="artifacts-for-inner")
def artifacts_for_inner():
    made = reading(file=write(text="content").outputs["file"])
    say(text=made.output).set_display_name("result")


@dsl.pipeline(name="artifact-of")
def artifact_of(text: str) -> str:
    return reading(file=inner(text=text).outputs["file"]).output


@dsl.pipeline(name="three-deep")
def three_deep():
    with dsl.ParallelFor(["a", "b"]) as text, dsl.If(text == "b"):
        made = artifact_of(text=text)
    join(texts=dsl.Collected(made.output)).set_display_name("result")


EXPECTED = {
    "pipeline_in_pipeline": "a56",
    "pipeline_in_loop": "a5,b5",
    "pipeline_that_loops": "a,b",
    "defaults_of_inner": "mine57",
    "texts_for_inner": "<a>5",
    "optional_inputs_of_inner": "a,b,c d",
    "artifacts_for_inner": "content",
    "three_deep": "b5",
}
