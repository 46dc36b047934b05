"""Parameters and artifacts of every kind, placeholders, and settings of tasks."""

from typing import NamedTuple, Optional

from kfp import dsl
from kfp.dsl import (
    HTML,
    Artifact,
    ClassificationMetrics,
    Dataset,
    Input,
    Markdown,
    Metrics,
    Model,
    Output,
    OutputPath,
)

from vertex_local.tests.pipelines.habits.steps import STEP, read, say, shape_of, uri_of


@dsl.component(**STEP)
def all_kinds(
    text: str,
    number: int,
    ratio: float,
    yes: bool,
    items: list,
    shape: dict,
    more: Optional[str] = None,
) -> str:
    import json

    return json.dumps([text, number, ratio, yes, items, dict(sorted(shape.items())), more])


@dsl.component(**STEP)
def several() -> NamedTuple("Outputs", [("first", str), ("second", int), ("third", dict)]):
    return ("a", 2, {"b": 3})


@dsl.component(**STEP)
def paths(text: OutputPath(str), data: OutputPath("Dataset")):
    with open(text, "w") as file:
        file.write("by path")
    with open(data, "w") as file:
        file.write("data")


@dsl.component(**STEP)
def report(metrics: Output[Metrics], classes: Output[ClassificationMetrics], page: Output[HTML]):
    metrics.log_metric("accuracy", 0.5)
    metrics.log_metric("count", 3)
    classes.log_confusion_matrix(["a", "b"], [[1, 2], [3, 4]])
    classes.log_roc_curve([0.0, 1.0], [0.0, 1.0], [1.0, 0.0])
    with open(page.path, "w") as file:
        file.write("<p>hello</p>")


@dsl.component(**STEP)
def metric_of(metrics: Input[Metrics], classes: Input[ClassificationMetrics]) -> str:
    import json

    return json.dumps(
        [dict(sorted(metrics.metadata.items())), classes.metadata["confusionMatrix"]["rows"][0]]
    )


@dsl.component(**STEP)
def model_of(model: Output[Model]):
    model.framework = "tf"
    model.metadata["depth"] = 3
    with open(model.path, "w") as file:
        file.write("model")


@dsl.component(**STEP)
def describe(thing: Input[Artifact]) -> str:
    return f"{thing.schema_title} {thing.metadata['depth']}"


@dsl.component(**STEP)
def variable(name: str) -> str:
    import os

    return os.environ[name]


@dsl.component(**STEP)
def folder_of(folder: Output[Model], notes: Output[Markdown]):
    import os

    os.makedirs(folder.path)
    with open(os.path.join(folder.path, "weights"), "w") as file:
        file.write("w")
    with open(notes.path, "w") as file:
        file.write("# Notes")


@dsl.component(**STEP)
def list_of(folder: Input[Model], notes: Input[Markdown]) -> str:
    import os

    return f"{os.listdir(folder.path)} {open(notes.path).read()}"


@dsl.component(**STEP)
def number_or_none(number: Optional[int] = None) -> str:
    return str(number)


@dsl.component(**STEP)
def amount() -> str:
    return "2G"


@dsl.component(**STEP)
def not_finite(metrics: Output[Metrics], classes: Output[ClassificationMetrics]) -> float:
    metrics.log_metric("auc", float("nan"))
    metrics.log_metric("loss", float("inf"))
    classes.log_roc_curve([0.0, 1.0], [0.0, 1.0], [float("inf"), 0.5])
    return float("nan")


@dsl.component(**STEP)
def first_threshold(
    metrics: Input[Metrics], classes: Input[ClassificationMetrics], value: float
) -> str:
    rows = classes.metadata["confidenceMetrics"]
    return f"{metrics.metadata['auc']} {rows[0]['confidenceThreshold']} {value}"


@dsl.component(**STEP)
def length(text: str) -> int:
    return len(text)


@dsl.component(**STEP)
def long_text() -> str:
    return 'a "b" ' * 50_000


@dsl.pipeline(name="values")
def values(
    text: str = 'it\'s "so" {x}',
    number: int = 3,
    ratio: float = 2.0,
    yes: bool = False,
    items: list = [1, 2.5, "a"],  # noqa: B006
    shape: dict = {"a": 1, "b": {"c": [2]}},  # noqa: B006
    more: Optional[str] = None,
    none: int = None,  # noqa: RUF013  as others write it
):
    all_kinds(
        text=text, number=number, ratio=ratio, yes=yes, items=items, shape=shape, more=more
    ).set_display_name("all kinds")
    number_or_none(number=none).set_display_name("optional int")

    said = say(text='a "quoted" word')
    quoted = shape_of(shape={"said": said.output, "list": ["n", f"<{said.output}>"]})
    quoted.set_display_name("outputs in structures")

    named = several()
    shape_of(shape=named.outputs["third"])
    say(text=f"{named.outputs['first']}{named.outputs['second']}").set_display_name("named outputs")

    made = paths()
    read(file=made.outputs["data"])
    say(text=made.outputs["text"]).set_display_name("output paths")

    made = report()
    found = metric_of(metrics=made.outputs["metrics"], classes=made.outputs["classes"])
    found.set_display_name("metrics")
    made = not_finite()
    found = first_threshold(
        metrics=made.outputs["metrics"],
        classes=made.outputs["classes"],
        value=made.outputs["Output"],
    )
    found.set_display_name("metrics not finite")

    describe(thing=model_of().outputs["model"]).set_display_name("generic artifact")
    made = folder_of()
    listed = list_of(folder=made.outputs["folder"], notes=made.outputs["notes"])
    listed.set_display_name("folders")

    first = say(text="a")
    second = say(text=first.output)
    third = say(text=f"{first.output}{second.output}")
    say(text=third.output).set_display_name("twice")


@dsl.pipeline(name="settings")
def settings(uri: str = "/etc/hostname"):
    say(
        text="|".join(
            (
                dsl.PIPELINE_JOB_NAME_PLACEHOLDER,
                dsl.PIPELINE_JOB_RESOURCE_NAME_PLACEHOLDER,
                dsl.PIPELINE_JOB_ID_PLACEHOLDER,
                dsl.PIPELINE_TASK_NAME_PLACEHOLDER,
                dsl.PIPELINE_ROOT_PLACEHOLDER,
                dsl.PIPELINE_JOB_CREATE_TIME_UTC_PLACEHOLDER,
                dsl.PIPELINE_JOB_SCHEDULE_TIME_UTC_PLACEHOLDER,
                "{{$.pipeline_google_cloud_project_id}}",
                "{{$.pipeline_google_cloud_location}}",
            )
        )
    ).set_display_name("placeholders")
    named = {"run": dsl.PIPELINE_JOB_NAME_PLACEHOLDER}
    named["more"] = [{"in": ["{{$.pipeline_google_cloud_location}}"]}]
    shape_of(shape=named).set_display_name("placeholders in structures")
    told = say(text=f"{dsl.PIPELINE_TASK_EXECUTOR_INPUT_PLACEHOLDER}")
    told.set_display_name("executor input")

    imported = dsl.importer(
        artifact_uri=uri, artifact_class=Dataset, reimport=True, metadata={"depth": 1}
    )
    describe(thing=imported.output).set_display_name("importer")
    path = say(text="/etc/passwd")
    imported = dsl.importer(artifact_uri=path.output, artifact_class=Dataset, reimport=False)
    uri_of(thing=imported.output).set_display_name("importer of output")

    said = say(text="first").set_cpu_limit("2").set_memory_limit("4G").set_caching_options(False)
    said.set_cpu_request("1").set_memory_request("1G").set_retry(
        num_retries=2, backoff_duration="1s", backoff_factor=2, backoff_max_duration="5s"
    )
    coloured = variable(name="COLOUR").set_env_variable("COLOUR", "blue").after(said)
    coloured.set_display_name("variable")
    said = say(text="no GPU needed").set_accelerator_type("NVIDIA_TESLA_T4")
    said.set_accelerator_limit(1).set_display_name("accelerator")
    said = say(text="any").set_memory_limit(amount().output).set_cpu_limit(say(text="2").output)
    said.set_display_name("limit of output")


@dsl.pipeline(name="long-argument")
def long_argument():
    """300,000 characters; Linux allows 128 KiB in an argument of a command."""
    length(text=long_text().output).set_display_name("length")


EXPECTED = {
    values: {
        "all kinds": '["it\'s \\"so\\" {x}", 3, 2.0, false, '
        '[1, 2.5, "a"], {"a": 1, "b": {"c": [2]}}, null]',
        "optional int": "None",
        "outputs in structures": '{"list": ["n", "<a \\"quoted\\" word>"], '
        '"said": "a \\"quoted\\" word"}',
        "named outputs": "a2",
        "output paths": "by path",
        "metrics": '[{"accuracy": 0.5, "count": 3}, {"row": [1, 2]}]',
        "metrics not finite": "nan inf nan",
        "generic artifact": "system.Model 3",
        "folders": "['weights'] # Notes",
        "twice": "aa",
    },
    settings: {
        "placeholders": "RUN|projects/demo/locations/us-central1/pipelineJobs/RUN|RUN|say|"
        "ROOT|CREATED|CREATED|demo|us-central1",
        "placeholders in structures": '{"more": [{"in": ["us-central1"]}], "run": "RUN"}',
        "executor input": '{"inputs": {"parameterValues": {"text": "{{$}}"}',
        "importer": "system.Dataset 1",
        "importer of output": "/etc/passwd",
        "variable": "blue",
        "accelerator": "no GPU needed",
        "limit of output": "any",
    },
    long_argument: {"length": 300_000},
}
