"""Custom jobs made of components, by `create_custom_training_job_from_component`."""

from typing import NamedTuple

from google_cloud_pipeline_components.v1.custom_job import (
    CustomTrainingJobOp,
    create_custom_training_job_from_component,
    create_custom_training_job_op_from_component,
)
from kfp import dsl
from kfp.dsl import Dataset, Input, Metrics, Model, Output, OutputPath

from vertex_local.tests.pipelines.habits.steps import STEP, join, say, write


@dsl.component(**STEP)
def train(
    text: str,
    number: int,
    shape: dict,
    data: Input[Dataset],
    model: Output[Model],
    metrics: Output[Metrics],
) -> NamedTuple("Out", [("said", str), ("count", int)]):
    import json
    import os

    cluster = json.loads(os.environ["CLUSTER_SPEC"])
    colour = os.environ.get("COLOUR", "")
    if (
        cluster["task"]["type"] == "workerpool0"
    ):  # the job ends with it, and cuts others off mid-write
        with open(model.path, "w") as file:
            file.write(f"{data.metadata['length']}{text}")
    model.framework = "own"
    metrics.log_metric("accuracy", 0.5)
    workers = sum(len(tasks) for tasks in cluster["cluster"].values())
    said = f"{text}|{number}|{json.dumps(shape, sort_keys=True)}|{colour}|{workers}"
    return (said, number + 1)


@dsl.component(**STEP)
def outcome(said: str, count: int, model: Input[Model], metrics: Input[Metrics]) -> str:
    return f"{said} {count} {open(model.path).read()} {metrics.metadata['accuracy']}"


single = create_custom_training_job_from_component(train, display_name="single")
pooled = create_custom_training_job_from_component(
    train,
    display_name="pooled",
    replica_count=3,
    machine_type="n1-highmem-2",
    accelerator_type="NVIDIA_TESLA_T4",
    accelerator_count=1,
    boot_disk_type="pd-standard",
    boot_disk_size_gb=200,
    timeout="600s",
    restart_job_on_worker_restart=True,
    service_account="me@example.com",
    enable_web_access=False,
    labels={"team": "a"},
    env=[{"name": "COLOUR", "value": 'a "deep" blue'}],
)


@dsl.container_component
def shell(text: str, out: OutputPath(str)):
    return dsl.ContainerSpec(
        image="python:3.11",
        command=["sh", "-c", 'mkdir -p "$(dirname "$1")"; printf "%s" "$0" > "$1"'],
        args=[text, out],
    )


job_of_shell_op = create_custom_training_job_op_from_component(shell, base_output_directory="")


def outcome_of(trained, name: str):
    ended = outcome(
        said=trained.outputs["said"],
        count=trained.outputs["count"],
        model=trained.outputs["model"],
        metrics=trained.outputs["metrics"],
    )
    ended.set_display_name(name)


@dsl.pipeline(name="jobs")
def jobs(text: str = "hello", quoted: str = 'it\'s "so"', letter: str = "x"):
    data = write(text="data").outputs["file"]
    outcome_of(
        single(text=text, number=3, shape={"a": [1, {"b": 2.5}]}, data=data), "of a component"
    )
    said = say(text=quoted)
    trained = pooled(text=said.output, number=3, shape={"a": said.output}, data=data)
    outcome_of(trained, "in pools")
    with dsl.ParallelFor(["a", "b"]) as item:
        trained = single(
            text=item,
            number=1,
            shape={},
            data=data,
            display_name="mine",
            timeout="100s",
            project="demo",
            location="us-central1",
            labels={"a": "b"},
        )
    join(texts=dsl.Collected(trained.outputs["said"])).set_display_name("with settings, in a loop")
    made = job_of_shell_op(text="in a container")
    say(text=made.outputs["out"]).set_display_name("of a container")

    # Handwritten worker pools that contain a parameter and the run's name.
    program = ["python", "-c", "import sys; print(sys.argv)"]
    pool = {
        "machine_spec": {"machine_type": "n1-standard-4"},
        "replica_count": 1,
        "container_spec": {
            "image_uri": "python:3.11",
            "command": [*program, letter, dsl.PIPELINE_JOB_NAME_PLACEHOLDER],
        },
    }
    trained = CustomTrainingJobOp(display_name=f"train-{letter}", worker_pool_specs=[pool])
    say(text="done").after(trained).set_display_name("of dictionaries")


EXPECTED = {
    jobs: {
        "of a component": 'hello|3|{"a": [1, {"b": 2.5}]}||1 4 4hello 0.5',
        "in pools": 'it\'s "so"|3|{"a": "it\'s \\"so\\""}|a "deep" blue|3 4 4it\'s "so" 0.5',
        "with settings, in a loop": "a|1|{}||1,b|1|{}||1",
        "of a container": "in a container",
        "of dictionaries": "done",
    }
}
