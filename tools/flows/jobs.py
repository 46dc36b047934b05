"""Flows of custom jobs, tuning jobs and training pipelines: test_custom_job.py, ….

Also test_e2e_tabular.py, without its data set and AutoML, and test_project_id_inference.py.
"""

import contextlib
from pathlib import Path

from google.api_core import exceptions
from google.cloud import aiplatform
from google.cloud.aiplatform import hyperparameter_tuning as tuning_specs

from tools.flows.calls import Calls
from tools.flows.models import MACHINE, SERVER

SCRIPT = """
import os, sys
print("arguments", sys.argv[1:])
if folder := os.environ.get("AIP_MODEL_DIR"):  # a gs:// address
    from google.cloud import storage

    blob = storage.Blob.from_uri(folder + "saved_model.pb", storage.Client())
    blob.upload_from_string("trained")
"""
# As cloudml-hypertune writes it.
TRIAL = """
import json, os, pathlib, sys
file = pathlib.Path(os.environ["CLOUD_ML_HP_METRIC_FILE"])
file.parent.mkdir(parents=True, exist_ok=True)
rate = float(sys.argv[1].partition("=")[2])
report = {"timestamp": 1.0, "trial": os.environ["CLOUD_ML_TRIAL_ID"], "global_step": "1"}
file.write_text(json.dumps({**report, "accuracy": rate}))
"""
SETUP = "import setuptools\nsetuptools.setup(name='trainer', version='1', packages=['trainer'])\n"


def pool(code: str = "pass", *, replicas: int = 1, **container) -> dict:
    """Return a worker pool of a program."""
    return {
        "machine_spec": {"machine_type": "n1-standard-4"},
        "replica_count": replicas,
        "container_spec": {"image_uri": "any", "command": ["python", "-c", code], **container},
    }


def custom(*pools: dict, **fields) -> aiplatform.CustomJob:
    return aiplatform.CustomJob("job", worker_pool_specs=list(pools or [pool()]), **fields)


def custom_jobs(calls: Calls) -> None:
    """Run, list, cancel, delete."""
    job = calls("CustomJob", lambda: custom(labels={"team": "a"}))
    calls("run", job.run)
    calls("state", lambda: job.state.name == "JOB_STATE_SUCCEEDED")
    calls("get", lambda: aiplatform.CustomJob.get(job.resource_name).display_name == "job")
    calls("list", lambda: job.name in [one.name for one in aiplatform.CustomJob.list()])
    calls("list filter", lambda: len(aiplatform.CustomJob.list(filter="labels.team=a")) == 1)
    calls("times", lambda: job.start_time <= job.end_time)
    calls("submit", lambda: submitted(custom()))
    calls("sync=False", lambda: asynchronous(custom()))
    calls(
        "arguments and env",
        lambda: custom(
            pool(
                "import os, sys; assert (sys.argv[1], os.environ['A']) == ('x', 'b')",
                args=["x"],
                env=[{"name": "A", "value": "b"}],
            )
        ).run(),
    )
    calls("replicas", lambda: custom(pool(), pool(replicas=2)).run())
    calls("base_output_dir", output)
    calls(
        "scheduling",
        lambda: custom().run(
            timeout=1234, restart_job_on_worker_restart=True, disable_retries=True
        ),
    )
    calls(
        "account, network, web access",
        lambda: custom().run(
            service_account="me@p.iam",
            network="projects/1/global/networks/n",
            enable_web_access=True,
        ),
    )
    calls("from_local_script", lambda: local_script().run())
    calls("from_local_script, image", lambda: local_script(container_uri="python:3.8").run())
    calls(
        "project",
        lambda: custom(
            pool(
                "from google.cloud import aiplatform; aiplatform.initializer.global_config.project"
            )
        ).run(),
    )
    calls("error", failing)
    calls("cancel", cancelled)
    calls("delete", job.delete)
    calls.raises(
        "get deleted", exceptions.NotFound, lambda: aiplatform.CustomJob.get(job.resource_name)
    )
    calls("experiment", lambda: custom().run(experiment="mine"))


def submitted(job) -> bool:
    job.submit()
    job._block_until_complete()
    return job.state.name == "JOB_STATE_SUCCEEDED"


def asynchronous(job) -> bool:
    job.run(sync=False)
    job.wait_for_resource_creation()
    job.wait()
    return job.state.name == "JOB_STATE_SUCCEEDED"


def output() -> bool:
    from google.cloud import storage

    custom(pool(SCRIPT), base_output_dir="gs://staging/out").run()
    return storage.Client().bucket("staging").blob("out/model/saved_model.pb").exists()


def script() -> str:
    Path("train.py").write_text(SCRIPT)
    return "train.py"


def local_script(**fields) -> aiplatform.CustomJob:
    image = "us-docker.pkg.dev/vertex-ai/training/sklearn-cpu.1-0:latest"
    return aiplatform.CustomJob.from_local_script(
        "job", script_path=script(), **{"container_uri": image, **fields}
    )


def failing() -> bool:
    job = custom(pool("raise SystemExit(3)"))
    try:
        job.run()
    except RuntimeError:
        return "3" in job.error.message
    return False


def cancelled() -> bool:
    job = custom(pool("import time; time.sleep(300)"))
    job.submit()
    job.cancel()
    with contextlib.suppress(RuntimeError):  # it was cancelled
        job._block_until_complete()
    return job.state.name == "JOB_STATE_CANCELLED"


def tuning_jobs(calls: Calls) -> None:
    """Run, trials, list, cancel, delete."""
    job = calls("HyperparameterTuningJob", lambda: tuning(TRIAL))
    calls("run", job.run)
    calls("state", lambda: job.state.name == "JOB_STATE_SUCCEEDED")
    calls("trials", lambda: [len(trial.parameters) for trial in job.trials] == [1, 1, 1])
    calls(
        "final_measurement",
        lambda: job.trials[0].final_measurement.metrics[0].metric_id == "accuracy",
    )
    calls("get", lambda: aiplatform.HyperparameterTuningJob.get(job.resource_name).name == job.name)
    calls("list", lambda: len(aiplatform.HyperparameterTuningJob.list()) == 1)
    calls("random", lambda: tuning(TRIAL, search_algorithm="random").run())
    calls("grid", lambda: tuning(TRIAL, search_algorithm="grid").run())
    calls("cancel", tuning_cancelled)
    calls("delete", job.delete)


def tuning(code: str, **fields) -> aiplatform.HyperparameterTuningJob:
    return aiplatform.HyperparameterTuningJob(
        display_name="tuning",
        custom_job=custom(pool(code)),
        metric_spec={"accuracy": "maximize"},
        parameter_spec={"rate": tuning_specs.DiscreteParameterSpec([0.1, 0.5, 1], scale="linear")},
        max_trial_count=3,
        parallel_trial_count=3,
        **fields,
    )


def tuning_cancelled() -> bool:
    job = tuning("import time; time.sleep(300)")
    job.run(sync=False)
    job.wait_for_resource_creation()
    job.cancel()
    with contextlib.suppress(RuntimeError):  # it was cancelled
        job._block_until_complete()
    return job.state.name == "JOB_STATE_CANCELLED"


def training_pipelines(calls: Calls) -> None:
    """Train a script, an image and a package; upload, deploy, predict."""
    serving = {f"model_{name}": value for name, value in SERVER.items()}
    job = calls(
        "CustomTrainingJob",
        lambda: aiplatform.CustomTrainingJob(
            "training", script_path=script(), container_uri="any", **serving
        ),
    )
    model = calls(
        "run",
        lambda: job.run(
            model_display_name="trained",
            args=["--a", "b"],
            timeout=1234,
            restart_job_on_worker_restart=True,
            enable_web_access=True,
        ),
    )
    calls("state", lambda: job.state.name == "PIPELINE_STATE_SUCCEEDED")
    calls(
        "scheduling",
        lambda: job._gca_resource.training_task_inputs["scheduling"]["timeout"] == "1234s",
    )
    calls("done", lambda: job.done() and not job.has_failed)
    calls("model", lambda: model.display_name == "trained")
    calls("get_model", lambda: job.get_model().resource_name == model.resource_name)
    endpoint = calls("deploy", lambda: model.deploy(**MACHINE))
    calls("predict", lambda: endpoint.predict([4]).predictions[0]["double"] == 8)
    calls("get", lambda: aiplatform.CustomTrainingJob.get(job.resource_name).name == job.name)
    calls("list", lambda: len(aiplatform.CustomTrainingJob.list()) == 1)
    calls(
        "CustomContainerTrainingJob",
        lambda: aiplatform.CustomContainerTrainingJob(
            "c", container_uri="any", command=["python", "-c", "pass"]
        ).run(),
    )
    calls("CustomPythonPackageTrainingJob", lambda: packaged().run(args=["a"]))
    calls("sync=False", lambda: training_async(serving))
    calls("parent_model", lambda: version_of(model, serving).version_id == "2")
    calls("cancel", training_cancelled)
    calls("endpoint delete", lambda: endpoint.delete(force=True))
    calls("delete", job.delete)
    calls("dataset", lambda: aiplatform.TabularDataset.create("d", gcs_source="gs://staging/d.csv"))


def packaged() -> aiplatform.CustomPythonPackageTrainingJob:
    import tarfile

    from google.cloud import storage

    Path("package/trainer").mkdir(parents=True, exist_ok=True)
    Path("package/setup.py").write_text(SETUP)
    Path("package/trainer/__init__.py").touch()
    Path("package/trainer/task.py").write_text(SCRIPT)
    with tarfile.open("trainer-1.tar.gz", "w:gz") as archive:
        archive.add("package", "trainer-1")
    storage.Client().bucket("staging").blob("trainer-1.tar.gz").upload_from_filename(
        "trainer-1.tar.gz"
    )
    return aiplatform.CustomPythonPackageTrainingJob(
        "p",
        python_package_gcs_uri="gs://staging/trainer-1.tar.gz",
        python_module_name="trainer.task",
        container_uri="any",
    )


def trainer(name: str, serving: dict) -> aiplatform.CustomTrainingJob:
    return aiplatform.CustomTrainingJob(name, script_path=script(), container_uri="any", **serving)


def training_async(serving: dict) -> bool:
    job = trainer("asynchronous", serving)
    model = job.run(sync=False)
    job.wait_for_resource_creation()
    model.wait()
    return job.done()


def version_of(model, serving: dict) -> aiplatform.Model:
    return trainer("version", serving).run(parent_model=model.resource_name)


def training_cancelled() -> bool:
    command = ["python", "-c", "import time; time.sleep(300)"]
    job = aiplatform.CustomContainerTrainingJob("s", container_uri="any", command=command)
    job.run(sync=False)
    job.wait_for_resource_creation()
    job.cancel()
    with contextlib.suppress(RuntimeError):  # it was cancelled
        job._block_until_complete()
    return job.state.name == "PIPELINE_STATE_CANCELLED"
