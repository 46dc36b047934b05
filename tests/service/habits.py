"""Pipelines as other people write them: one for each habit, with what must come of it."""

from typing import NamedTuple, Optional

from kfp import dsl
from kfp.dsl import (
    HTML,
    Artifact,
    ClassificationMetrics,
    Dataset,
    Input,
    Metrics,
    Model,
    Output,
    OutputPath,
)

STEP = {"install_kfp_package": False, "base_image": "python:3.11"}


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
def flip(side: str) -> str:
    return side


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
def is_even(number: int) -> bool:
    return number % 2 == 0


# Conditions


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
    with dsl.If(counted.output > 3), dsl.If(flag == True):  # noqa: E712
        with dsl.If(name != "y"):
            say(text="deep").set_display_name("result")
        with dsl.Else():
            fail()
    with dsl.If(counted.output <= 3):
        fail()


@dsl.pipeline(name="old-condition")
def old_condition():
    with dsl.Condition(is_even(number=4).output == True, name="even"):  # noqa: E712
        say(text="even").set_display_name("result")


# Loops


@dsl.pipeline(name="loop-collected")
def loop_collected():
    with dsl.ParallelFor([1, 2, 3]) as number:
        added = add(a=number)
    total(numbers=dsl.Collected(added.output)).set_display_name("result")


@dsl.pipeline(name="loop-of-output")
def loop_of_output():
    with dsl.ParallelFor(make_list(count=4).output, parallelism=1) as number:
        added = add(a=number, b=10)
    total(numbers=dsl.Collected(added.output)).set_display_name("result")


@dsl.pipeline(name="loop-of-parameter")
def loop_of_parameter(texts: list = ["a", "b"]):  # noqa: B006
    with dsl.ParallelFor(texts) as text:
        said = say(text=text)
    join(texts=dsl.Collected(said.output)).set_display_name("result")


@dsl.pipeline(name="loop-of-dicts")
def loop_of_dicts():
    with dsl.ParallelFor([{"label": "a", "size": 1}, {"label": "b", "size": 2}]) as one:
        said = say(text=f"{one.label}={one.size}")
    join(texts=dsl.Collected(said.output)).set_display_name("result")


@dsl.pipeline(name="loop-of-output-dicts")
def loop_of_output_dicts():
    with dsl.ParallelFor(make_dicts().output) as one:
        said = add(a=one.size, b=1)
    total(numbers=dsl.Collected(said.output)).set_display_name("result")


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


@dsl.pipeline(name="loop-artifacts")
def loop_artifacts():
    with dsl.ParallelFor(["a", "b", "c"]) as text:
        written = write(text=text)
    read_all(files=dsl.Collected(written.outputs["file"])).set_display_name("result")


@dsl.pipeline(name="many-files")
def many_files() -> list[Dataset]:
    with dsl.ParallelFor(["a", "b"]) as text:
        written = write(text=text)
    return dsl.Collected(written.outputs["file"])


@dsl.pipeline(name="loop-over-artifacts")
def loop_over_artifacts():
    with dsl.ParallelFor(many_files().output) as file:
        content = read(file=file)
    join(texts=dsl.Collected(content.output)).set_display_name("result")


@dsl.pipeline(name="loop-empty")
def loop_empty(texts: list = []):  # noqa: B006
    with dsl.ParallelFor(texts) as text:
        said = say(text=text)
    join(texts=dsl.Collected(said.output)).set_display_name("result")


@dsl.pipeline(name="loop-with-condition")
def loop_with_condition():
    with dsl.ParallelFor([1, 2, 3, 4]) as number, dsl.If(number > 2):
        added = add(a=number)
    total(numbers=dsl.Collected(added.output)).set_display_name("result")


@dsl.pipeline(name="loop-with-condition-on-task")
def loop_with_condition_on_task():
    with dsl.ParallelFor([1, 2, 3, 4]) as number:
        even = is_even(number=number)
        with dsl.If(even.output == True):  # noqa: E712
            added = add(a=number)
    total(numbers=dsl.Collected(added.output)).set_display_name("result")


@dsl.pipeline(name="loop-artifacts-with-condition")
def loop_artifacts_with_condition():
    with dsl.ParallelFor(["a", "b", "c"]) as text, dsl.If(text != "b"):
        written = write(text=text)
    read_all(files=dsl.Collected(written.outputs["file"])).set_display_name("result")


@dsl.pipeline(name="loop-one-of")
def loop_one_of():
    with dsl.ParallelFor([1, 2, 3]) as number:
        even = is_even(number=number)
        with dsl.If(even.output == True):  # noqa: E712
            first = say(text="even")
        with dsl.Else():
            second = say(text="odd")
        said = say(text=dsl.OneOf(first.output, second.output))
    join(texts=dsl.Collected(said.output)).set_display_name("result")


@dsl.pipeline(name="condition-around-loop")
def condition_around_loop(go: bool = True):
    with dsl.If(go == True):  # noqa: E712
        with dsl.ParallelFor(["a", "b"]) as text:
            said = say(text=text)
        join(texts=dsl.Collected(said.output)).set_display_name("result")


# Exit tasks and failures


@dsl.pipeline(name="exit-after-success")
def exit_after_success():
    with dsl.ExitHandler(final()):
        say(text="fine")


@dsl.pipeline(name="exit-after-failure")
def exit_after_failure():
    with dsl.ExitHandler(final()):
        fail(message="bad")


@dsl.component(**STEP)
def tidy() -> str:
    return "tidied"


@dsl.pipeline(name="exit-without-status")
def exit_without_status():
    with dsl.ExitHandler(tidy()):
        fail(message="bad")


@dsl.component(**STEP)
def note(message: str = "nothing") -> str:
    return message


@dsl.component(**STEP)
def note_file(file: Optional[Input[Dataset]] = None) -> str:  # noqa: UP045
    return "none" if file is None else file.uri


@dsl.pipeline(name="ignore-upstream-failure")
def ignore_upstream_failure():
    failed = fail()
    note(message=failed.output).ignore_upstream_failure().set_display_name("result")


@dsl.pipeline(name="ignore-upstream-success")
def ignore_upstream_success():
    note(message=say(text="fine").output).ignore_upstream_failure().set_display_name("result")


@dsl.pipeline(name="ignore-upstream-failure-after")
def ignore_upstream_failure_after():
    note(message="given").after(fail()).ignore_upstream_failure().set_display_name("result")


@dsl.pipeline(name="ignore-upstream-failure-artifact")
def ignore_upstream_failure_artifact():
    failed = fail_file()
    note_file(file=failed.outputs["file"]).ignore_upstream_failure().set_display_name("result")


# Inputs and outputs


@dsl.component(**STEP)
def all_kinds(  # noqa: PLR0917
    text: str,
    number: int,
    ratio: float,
    yes: bool,
    items: list,
    shape: dict,
    more: Optional[str] = None,  # noqa: UP045
) -> str:
    import json

    return json.dumps([text, number, ratio, yes, items, shape, more])


@dsl.pipeline(name="all-kinds")
def kinds(  # noqa: PLR0917
    text: str = 'it\'s "so" {x}',
    number: int = 3,
    ratio: float = 2.0,
    yes: bool = False,
    items: list = [1, 2.5, "a"],  # noqa: B006
    shape: dict = {"a": 1, "b": {"c": [2]}},  # noqa: B006
    more: Optional[str] = None,  # noqa: UP045
):
    all_kinds(
        text=text, number=number, ratio=ratio, yes=yes, items=items, shape=shape, more=more
    ).set_display_name("result")


@dsl.component(**STEP)
def shape_of(shape: dict) -> str:
    import json

    return json.dumps(shape, sort_keys=True)


@dsl.pipeline(name="outputs-in-structures")
def outputs_in_structures(name: str = "n"):
    said = say(text='a "quoted" word')
    shape_of(shape={"said": said.output, "list": [name, f"<{said.output}>"]}).set_display_name(
        "result"
    )


@dsl.component(**STEP)
def several() -> NamedTuple("Outputs", [("first", str), ("second", int), ("third", dict)]):
    return ("a", 2, {"b": 3})


@dsl.pipeline(name="named-outputs")
def named_outputs():
    made = several()
    shape_of(shape=made.outputs["third"])
    say(text=f"{made.outputs['first']}{made.outputs['second']}").set_display_name("result")


@dsl.component(**STEP)
def paths(text: OutputPath(str), data: OutputPath("Dataset")):
    with open(text, "w") as file:
        file.write("by path")
    with open(data, "w") as file:
        file.write("data")


@dsl.pipeline(name="output-paths")
def output_paths():
    made = paths()
    read(file=made.outputs["data"])
    say(text=made.outputs["text"]).set_display_name("result")


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

    return json.dumps([metrics.metadata, classes.metadata["confusionMatrix"]["rows"][0]])


@dsl.pipeline(name="metrics")
def metrics():
    made = report()
    metric_of(metrics=made.outputs["metrics"], classes=made.outputs["classes"]).set_display_name(
        "result"
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


@dsl.pipeline(name="generic-artifact")
def generic_artifact():
    describe(thing=model_of().outputs["model"]).set_display_name("result")


@dsl.pipeline(name="importer-local")
def importer_local(uri: str = "/etc/hostname"):
    imported = dsl.importer(
        artifact_uri=uri, artifact_class=Dataset, reimport=True, metadata={"depth": 1}
    )
    describe(thing=imported.output).set_display_name("result")


@dsl.component(**STEP)
def uri_of(thing: Input[Artifact]) -> str:
    return thing.uri


@dsl.pipeline(name="importer-of-output")
def importer_of_output():
    said = say(text="/etc/passwd")
    imported = dsl.importer(artifact_uri=said.output, artifact_class=Dataset, reimport=False)
    uri_of(thing=imported.output).set_display_name("result")


# Pipelines in pipelines


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


# Settings of tasks, placeholders


@dsl.component(**STEP)
def variable(name: str) -> str:
    import os

    return os.environ[name]


@dsl.pipeline(name="settings")
def settings():
    said = say(text="first").set_cpu_limit("2").set_memory_limit("4G").set_caching_options(False)
    said.set_cpu_request("1").set_memory_request("1G").set_retry(
        num_retries=2, backoff_duration="1s", backoff_factor=2, backoff_max_duration="5s"
    )
    variable(name="COLOUR").set_env_variable("COLOUR", "blue").after(said).set_display_name(
        "result"
    )


@dsl.pipeline(name="placeholders")
def run_placeholders():
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
    ).set_display_name("result")


@dsl.pipeline(name="task-id")
def task_id():
    say(text=dsl.PIPELINE_TASK_ID_PLACEHOLDER).set_display_name("result")


@dsl.pipeline(name="executor-input")
def executor_input(greeting: str = 'say "hi"'):
    say(text=f"{dsl.PIPELINE_TASK_EXECUTOR_INPUT_PLACEHOLDER}").set_display_name("result")


@dsl.pipeline(name="twice")
def twice():
    first = say(text="a")
    second = say(text=first.output)
    third = say(text=f"{first.output}{second.output}")
    say(text=third.output).set_display_name("result")


@dsl.pipeline(name="retried")
def retried():
    with dsl.ExitHandler(final()):
        fail(message="bad").set_retry(num_retries=1, backoff_duration="0s")


RESULTS = {
    "one_of_parameters": "tails!",
    "one_of_artifacts": "edge!",
    "one_of_returned": "heads!",
    "one_of_nested": "1 2",
    "nested_conditions": "deep",
    "old_condition": "even",
    "loop_collected": 9,
    "loop_of_output": 46,
    "loop_of_parameter": "a,b",
    "loop_of_dicts": "a=1,b=2",
    "loop_of_output_dicts": 5,
    "loops_nested": "ax-ay,bx-by",
    "loop_in_loop": "a1,a2,b1,b2",
    "loop_artifacts": "a,b,c",
    "loop_over_artifacts": "a,b",
    "loop_empty": "",
    "loop_with_condition": 9,
    "loop_with_condition_on_task": 8,
    "loop_artifacts_with_condition": "a,c",
    "loop_one_of": "odd,even,odd",
    "condition_around_loop": "a,b",
    "ignore_upstream_success": "fine",
    "kinds": '["it\'s \\"so\\" {x}", 3, 2.0, false, '
    '[1, 2.5, "a"], {"a": 1, "b": {"c": [2]}}, null]',
    "outputs_in_structures": '{"list": ["n", "<a \\"quoted\\" word>"], '
    '"said": "a \\"quoted\\" word"}',
    "named_outputs": "a2",
    "output_paths": "by path",
    "metrics": '[{"accuracy": 0.5, "count": 3}, {"row": [1, 2]}]',
    "generic_artifact": "system.Model 3",
    "importer_local": "system.Dataset 1",
    "importer_of_output": "/etc/passwd",
    "pipeline_in_pipeline": "a56",
    "pipeline_in_loop": "a5,b5",
    "pipeline_that_loops": "a,b",
    "settings": "blue",
    "twice": "aa",
}


# Jobs made of components

from google_cloud_pipeline_components.v1.custom_job import (  # noqa: E402
    CustomTrainingJobOp,
    create_custom_training_job_from_component,
    create_custom_training_job_op_from_component,
)


@dsl.component(**STEP)
def train(
    text: str, number: int, shape: dict, data: Input[Dataset], model: Output[Model], metrics: Output[Metrics]
) -> NamedTuple("Out", [("said", str), ("count", int)]):
    import json
    import os

    cluster = json.loads(os.environ["CLUSTER_SPEC"])
    colour = os.environ.get("COLOUR", "")
    with open(model.path, "w") as file:
        file.write(open(data.path).read() + text)
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

ODD = 'it\'s "so"\\n'


@dsl.pipeline(name="job-of-component")
def job_of_component(text: str = "hello"):
    data = write(text="data")
    trained = single(
        text=text, number=3, shape={"a": [1, {"b": 2.5}]}, data=data.outputs["file"]
    )
    outcome(
        said=trained.outputs["said"],
        count=trained.outputs["count"],
        model=trained.outputs["model"],
        metrics=trained.outputs["metrics"],
    ).set_display_name("result")


@dsl.pipeline(name="job-of-component-in-pools")
def job_of_component_in_pools(text: str = 'it\'s "so"'):
    data = write(text="data")
    said = say(text=text)
    trained = pooled(
        text=said.output, number=3, shape={"a": said.output}, data=data.outputs["file"]
    ).set_caching_options(False)
    outcome(
        said=trained.outputs["said"],
        count=trained.outputs["count"],
        model=trained.outputs["model"],
        metrics=trained.outputs["metrics"],
    ).set_display_name("result")


@dsl.container_component
def shell(text: str, out: OutputPath(str)):
    return dsl.ContainerSpec(
        image="python:3.11",
        command=["sh", "-c", 'mkdir -p "$(dirname "$1")"; printf "%s" "$0" > "$1"'],
        args=[text, out],
    )


job_of_shell_op = create_custom_training_job_op_from_component(shell, base_output_directory="")


@dsl.pipeline(name="job-of-container")
def job_of_container(text: str = "in a container"):
    say(text=job_of_shell_op(text=text).outputs["out"]).set_display_name("result")


@dsl.pipeline(name="job-op-settings-at-call")
def job_settings_at_call():
    data = write(text="data")
    trained = single(
        text="x",
        number=1,
        shape={},
        data=data.outputs["file"],
        display_name="mine",
        timeout="100s",
        project="demo",
        location="us-central1",
        labels={"a": "b"},
    )
    say(text=trained.outputs["said"]).set_display_name("result")


RESULTS |= {
    "job_of_component": 'hello|3|{"a": [1, {"b": 2.5}]}||1 4 datahello 0.5',
    "job_of_component_in_pools": 'it\'s "so"|3|{"a": "it\'s \\"so\\""}|a "deep" blue|3 4 datait\'s "so" 0.5',
    "job_of_container": "in a container",
    "job_settings_at_call": "x|1|{}||1",
}
