"""Steps that the pipelines share."""

from typing import Optional

from kfp import dsl
from kfp.dsl import Artifact, Dataset, Input, Output

STEP = {"base_image": "python:3.11"}


@dsl.component(**STEP)
def say(text: str) -> str:
    return text


@dsl.component(**STEP)
def add(a: int, b: int = 1) -> int:
    return a + b


@dsl.component(**STEP)
def total(numbers: list) -> int:
    assert all(isinstance(one, int) for one in numbers), numbers
    return sum(numbers)


@dsl.component(**STEP)
def join(texts: list) -> str:
    return ",".join("-".join(one) if isinstance(one, list) else one for one in texts)


@dsl.component(**STEP)
def make_list(count: int) -> list:
    return list(range(count))


@dsl.component(**STEP)
def make_dicts() -> list:
    return [{"label": "a", "size": 1}, {"label": "b", "size": 2}]


@dsl.component(**STEP)
def write(text: str, file: Output[Dataset]):
    with open(file.path, "w") as opened:
        opened.write(text)
    file.metadata["length"] = len(text)


@dsl.component(**STEP)
def read(file: Input[Dataset]) -> str:
    with open(file.path) as opened:
        return opened.read()


@dsl.component(**STEP)
def read_all(files: Input[list[Dataset]]) -> str:
    return ",".join(open(file.path).read() for file in files)


@dsl.component(**STEP)
def fail(message: str = "no") -> str:
    raise ValueError(message)


@dsl.component(**STEP)
def fail_file(file: Output[Dataset]):
    raise ValueError("no")


@dsl.component(**STEP)
def final(status: dsl.PipelineTaskFinalStatus) -> str:
    import json

    return json.dumps([status.state, status.error_code, status.error_message])


@dsl.component(**STEP)
def state_of(status: dict) -> str:
    return status["state"]


@dsl.component(**STEP)
def is_even(number: int) -> bool:
    return number % 2 == 0


@dsl.component(**STEP)
def tidy() -> str:
    return "tidied"


@dsl.component(**STEP)
def note(message: str = "nothing", more: Optional[str] = None) -> str:
    return message if more is None else f"{message} {more}"


@dsl.component(**STEP)
def note_file(file: Optional[Input[Dataset]] = None) -> str:
    return "none" if file is None else open(file.path).read()


@dsl.component(**STEP)
def shape_of(shape: dict) -> str:
    import json

    return json.dumps(shape, sort_keys=True)


@dsl.component(**STEP)
def uri_of(thing: Input[Artifact]) -> str:
    return thing.uri
