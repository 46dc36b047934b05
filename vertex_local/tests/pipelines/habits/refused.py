"""Pipelines that this service cannot run, or Vertex AI would not: refused before they start.

`EXPECTED` says what the refusal must name.
"""

from google_cloud_pipeline_components.types.artifact_types import UnmanagedContainerModel
from google_cloud_pipeline_components.v1.bigquery import BigqueryQueryJobOp
from google_cloud_pipeline_components.v1.custom_job import CustomTrainingJobOp
from google_cloud_pipeline_components.v1.dataflow import DataflowPythonJobOp
from google_cloud_pipeline_components.v1.endpoint import EndpointCreateOp, ModelDeployOp
from google_cloud_pipeline_components.v1.model import ModelUploadOp
from kfp import dsl
from kfp.dsl import Dataset, Input, Model

from vertex_local.tests.pipelines.habits.steps import join, note, read, say, uri_of


@dsl.pipeline(name="undefined")
def undefined():
    """Loops that the compiler of kfp 2.17.0 leaves without their inputs."""
    with dsl.ParallelFor([{"label": "a", "size": 1}, {"label": "b", "size": 2}]) as one:
        said = say(text=f"{one.label}={one.size}")
    join(texts=dsl.Collected(said.output))
    with dsl.ParallelFor(["a", "b"]) as outer, dsl.ParallelFor(["x", "y"]) as inner:
        said = say(text=f"{outer}{inner}")
    join(texts=dsl.Collected(said.output))
    with dsl.ParallelFor(["a", "b"]) as outer:
        first = say(text=outer)
        with dsl.ParallelFor([1, 2]) as inner:
            said = say(text=f"{first.output}{inner}")
        joined = join(texts=dsl.Collected(said.output))
    join(texts=dsl.Collected(joined.output))


@dsl.container_component
def shell():
    return dsl.ContainerSpec(image="alpine", command=["echo", "hello"])


@dsl.component(base_image="python:3.11", target_image="mine/image:1")
def in_its_image() -> str:
    return "hello"


@dsl.pipeline(name="one-more")
def one_more():
    DataflowPythonJobOp(python_module_path="gs://b/a.py", temp_location="gs://b/t")


@dsl.pipeline(name="many-things")
def many_things(where: str = "cloud"):
    """In an exit task, branches, a loop and a nested pipeline; the error must name all of them."""
    with dsl.ExitHandler(DataflowPythonJobOp(python_module_path="gs://b", temp_location="gs://b")):
        with dsl.If(where == "cloud"):
            BigqueryQueryJobOp(query="SELECT 1", location="US")
        with dsl.Else(), dsl.ParallelFor(["a", "b"]) as text:
            shell().after(say(text=text))
        one_more()
        in_its_image()


@dsl.pipeline(name="imports-an-input")
def reading(uri: str = "oci://bucket/other"):
    read(file=dsl.importer(artifact_uri=uri, artifact_class=Dataset).output)


TRAINER = {"image_uri": "us-docker.pkg.dev/p/r/trainer:1", "args": ["--epochs", "3"]}
SERVERS = ("us-docker.pkg.dev/p/r/server:1", "us-docker.pkg.dev/vertex-ai/prediction/tf2-cpu.2-15")


@dsl.pipeline(name="wrong-settings")
def settings(
    uri: str = "s3://bucket/data",
    model_dir: str = "/models/1",
    region: str = "west",
    text: str = "x",
):
    reading(uri=uri)
    reading()
    allowed = dsl.importer(artifact_uri="https://host/v1/models/1", artifact_class=Model)
    uri_of(thing=allowed.output)
    say(text="{{$.outputs}}")
    with dsl.If(text == "it's"):
        note(message="never")
    say(text="a").set_env_variable("REGION", f"{region}-1")

    # Prebuilt images without a command, as in Google's samples.
    pool = {"machine_spec": {"machine_type": "n1-standard-4"}, "replica_count": 1}
    pools = [{**pool, "container_spec": TRAINER}, {}]
    trained = CustomTrainingJobOp(display_name="train", worker_pool_specs=pools)
    for image in SERVERS:  # of the second the service has a server
        model = dsl.importer(
            artifact_uri=model_dir,
            artifact_class=UnmanagedContainerModel,
            metadata={"containerSpec": {"imageUri": image}},
        ).after(trained)
        uploaded = ModelUploadOp(display_name="m", unmanaged_container_model=model.output)
        endpoint = EndpointCreateOp(display_name="e")
        ModelDeployOp(model=uploaded.outputs["model"], endpoint=endpoint.outputs["endpoint"])


@dsl.pipeline(name="branches-inner")
def branches(side: str, other: str = "none") -> str:
    with dsl.If(side == "heads"):
        first = say(text="inner heads")
    with dsl.Else():
        second = note(message="inner tails", more=other)
    return dsl.OneOf(first.output, second.output)


@dsl.pipeline(name="same-names-inside-and-outside")
def same_names(other: str = "outer", side: str = "heads"):
    """The compiler of kfp 2.17.0 leaves the outer branches without tasks."""
    with dsl.If(side == "heads"):
        first = say(text="outer heads")
    with dsl.Else():
        second = note(message="outer tails")
    outer = dsl.OneOf(first.output, second.output)
    inner = branches(side="tails")
    note(message=outer, more=inner.output).set_display_name("result")


@dsl.pipeline(name="input-artifact")
def input_artifact(data: Input[Dataset]):
    read(file=data)


# By pipeline: the task, and what the error says about it.
EXPECTED = {
    undefined: [
        "for-loop-2: 'loop-item-param-1-subvar-label' is not defined",
        "for-loop-4: 'loop-item-param-5' is not defined",
        "for-loop-8: 'loop-item-param-9' is not defined",
    ],
    many_things: [
        "/bigquery-query-job: BigqueryQueryJob",
        "/dataflow-python: dataflow.dataflow_launcher",
        "/for-loop-6/shell: image alpine",
        "  dataflow-python: dataflow.dataflow_launcher",
        "/in-its-image: image mine/image:1",
    ],
    input_artifact: ["runtimeConfig.inputArtifacts: data"],
    settings: [
        "imports-an-input/importer: s3://bucket/data",
        "imports-an-input-2/importer: oci://bucket/other",
        "  say: {{$.outputs}}",
        "  say-2: the environment variable REGION",
        "condition-1: condition `",
        "custom-training-job: worker_pool_specs[0].container_spec has no command",
        "importer-2: the model's containerSpec has no command",
    ],
    same_names: ["condition-branches-1/condition-2/say: does not exist"],
}
