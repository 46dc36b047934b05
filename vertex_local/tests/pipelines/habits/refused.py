"""Pipelines that this service cannot run, or Vertex AI would not: refused before they start.

`EXPECTED` says what the refusal must name.
"""

from google_cloud_pipeline_components.types.artifact_types import UnmanagedContainerModel
from google_cloud_pipeline_components.v1.batch_predict_job import ModelBatchPredictOp
from google_cloud_pipeline_components.v1.bigquery import BigqueryQueryJobOp
from google_cloud_pipeline_components.v1.custom_job import CustomTrainingJobOp
from google_cloud_pipeline_components.v1.dataflow import DataflowPythonJobOp
from google_cloud_pipeline_components.v1.endpoint import EndpointCreateOp, ModelDeployOp
from google_cloud_pipeline_components.v1.model import ModelUploadOp
from kfp import dsl
from kfp.dsl import Dataset, Input, Model

from vertex_local.tests.pipelines.habits.steps import join, note, read, say, uri_of


@dsl.pipeline(name="loop-of-dicts")
def loop_of_dicts():
    with dsl.ParallelFor([{"label": "a", "size": 1}, {"label": "b", "size": 2}]) as one:
        said = say(text=f"{one.label}={one.size}")
    join(texts=dsl.Collected(said.output)).set_display_name("result")


@dsl.pipeline(name="loops-nested")
def loops_nested():
    with dsl.ParallelFor(["a", "b"]) as outer, dsl.ParallelFor(["x", "y"]) as inner:
        said = say(text=f"{outer}{inner}")
    join(texts=dsl.Collected(said.output)).set_display_name("result")


@dsl.pipeline(name="loop-in-loop-uses-outer-task")
def loop_in_loop():
    with dsl.ParallelFor(["a", "b"]) as outer:
        first = say(text=outer)
        with dsl.ParallelFor([1, 2]) as inner:
            said = say(text=f"{first.output}{inner}")
        joined = join(texts=dsl.Collected(said.output))
    join(texts=dsl.Collected(joined.output)).set_display_name("result")


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


@dsl.pipeline(name="batch")
def batch():
    model = dsl.importer(artifact_uri="https://host/v1/models/1", artifact_class=Model)
    uri_of(thing=model.output)
    ModelBatchPredictOp(job_display_name="batch")


@dsl.pipeline(name="imports-from-a-bucket")
def imports_from_a_bucket():
    read(file=dsl.importer(artifact_uri="gs://bucket/data", artifact_class=Dataset).output)


@dsl.pipeline(name="imports-an-input")
def reading(uri: str = "oci://bucket/other"):
    read(file=dsl.importer(artifact_uri=uri, artifact_class=Dataset).output)


@dsl.pipeline(name="imports-a-parameter")
def imports_a_parameter(uri: str = "s3://bucket/data"):
    reading(uri=uri)


@dsl.pipeline(name="imports-a-default")
def imports_a_default():
    reading()


TRAINER = {"image_uri": "us-docker.pkg.dev/p/r/trainer:1", "args": ["--epochs", "3"]}
SERVER = {"imageUri": "us-docker.pkg.dev/vertex-ai/prediction/tf2-cpu.2-15:latest"}


@dsl.pipeline(name="entry-points-of-images")
def entry_points(model_dir: str = "/models/1"):
    """Prebuilt images without a command, as in Google's samples."""
    pool = {"machine_spec": {"machine_type": "n1-standard-4"}, "replica_count": 1}
    trained = CustomTrainingJobOp(
        display_name="train",
        worker_pool_specs=[
            {**pool, "container_spec": TRAINER},
            {},
        ],
    )
    model = dsl.importer(
        artifact_uri=model_dir,
        artifact_class=UnmanagedContainerModel,
        metadata={"containerSpec": SERVER},
    ).after(trained)
    uploaded = ModelUploadOp(display_name="m", unmanaged_container_model=model.output)
    endpoint = EndpointCreateOp(display_name="e")
    ModelDeployOp(model=uploaded.outputs["model"], endpoint=endpoint.outputs["endpoint"])


@dsl.pipeline(name="unknown-placeholder")
def unknown_placeholder():
    say(text="{{$.pipeline_cost}} {{$.outputs}}")


@dsl.pipeline(name="quoted-condition")
def quoted_condition(text: str = "x"):
    with dsl.If(text == "it's"):
        say(text="never")


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


@dsl.pipeline(name="variable-of-parameter")
def variable_of_parameter(region: str = "west"):
    say(text="a").set_env_variable("REGION", f"{region}-1")


# By pipeline: the task, and what the error says about it.
EXPECTED = {
    "loop_of_dicts": ["for-loop-2: 'loop-item-param-1-subvar-label' is not defined"],
    "loops_nested": ["for-loop-2: 'loop-item-param-3' is not defined"],
    "loop_in_loop": ["for-loop-2: 'loop-item-param-3' is not defined"],
    "many_things": [
        "/bigquery-query-job: BigqueryQueryJob",
        "/dataflow-python: dataflow.dataflow_launcher",
        "/for-loop-6/shell: image alpine",
        "  dataflow-python: dataflow.dataflow_launcher",
        "/in-its-image: image mine/image:1",
    ],
    "input_artifact": ["runtimeConfig.inputArtifacts: data"],
    "variable_of_parameter": ["  say: the environment variable REGION"],
    "batch": ["  model-batch-predict: BatchPredictionJob"],
    "imports_from_a_bucket": ["  importer: gs://bucket/data"],
    "imports_a_parameter": ["imports-an-input/importer: s3://bucket/data"],
    "imports_a_default": ["imports-an-input/importer: oci://bucket/other"],
    "entry_points": [
        "custom-training-job: worker_pool_specs[0].container_spec has no command",
        "importer: the model's containerSpec has no command",
    ],
    "unknown_placeholder": ["  say: {{$.pipeline_cost}}", "  say: {{$.outputs}}"],
    "same_names": ["condition-branches-1/condition-2/say: does not exist"],
    "quoted_condition": ["condition-1: condition `"],
}
