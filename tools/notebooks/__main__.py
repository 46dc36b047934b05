"""Run Google's notebooks, unedited but for the project, against a service; print a table.

Usage: python -m tools.notebooks FOLDER [--public FOLDER] [--work FOLDER] [--second] [NAME …]

FOLDER is a clone of https://github.com/GoogleCloudPlatform/vertex-ai-samples. The objects below the
folder `--public` are the public buckets, gs://BUCKET/NAME as BUCKET/NAME; the default is stand-ins
of the same form (`stand_ins.py`).
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tools.notebooks.keras_stand_ins import write_wheel
from vertex_local import testing

HERE = Path(__file__).parent
# Below notebooks/official, with the subject for which each was chosen.
NOTEBOOKS = {
    "pipelines/pipelines_intro_kfp": "pipelines",
    "pipelines/control_flow_kfp": "pipelines: conditions and loops",
    "pipelines/lightweight_functions_component_io_kfp": "pipelines: artifacts, importer",
    "pipelines/metrics_viz_run_compare_kfp": "pipelines: packages, metrics",
    "custom/get_started_vertex_training_xgboost": "training pipeline: a package",
    "custom/sdk-custom-image-classification-online": "training pipeline: a script; serving",
    "training/hyperparameter_tuning_xgboost": "tuning job",
    "model_registry/get_started_with_model_registry": "models: versions, aliases",
    "model_evaluation/get_started_with_custom_model_evaluation_import": "models: evaluations",
    "prediction/get_started_with_raw_predict": "endpoints: raw predictions",
    "prediction/get_started_with_dedicated_endpoint": "endpoints: dedicated, traffic",
    "workbench/predictive_maintainance/predictive_maintenance_usecase": "upload, deploy, predict",
}
# Twelve more, chosen before their first run: without AutoML, data sets and foreign models.
SECOND = [
    "custom/sdk-custom-image-classification-batch",
    "migration/sdk-custom-image-classification-prebuilt-container",
    "migration/sdk-custom-scikit-learn-prebuilt-container",
    "migration/sdk-custom-xgboost-prebuilt-container",
    "migration/sdk-hyperparameter-tuning",
    "pipelines/custom_model_training_and_batch_prediction",
    "pipelines/get_started_with_machine_management",
    "workbench/fraud_detection/fraud-detection-model",
    "prediction/get_started_with_psc_private_endpoint",
    "prediction/pytorch_train_deploy_models_with_prebuilt_containers",
    "model_evaluation/custom_tabular_regression_model_evaluation",
    "pipelines/google_cloud_pipeline_components_model_train_upload_deploy",
]
TIMEOUT_SECONDS = 1800.0
WHEEL = "keras_stand_ins-1-py3-none-any.whl"
TOOLS = ["gcloud", "gsutil"]  # training code starts them as well
NOT_HERE = ["pip", "pip3", "docker", "sudo", "curl"]


def main() -> None:
    """Run the notebooks; exit with their number that did not reach their end."""
    parser = argparse.ArgumentParser(prog="python -m tools.notebooks")
    parser.add_argument("folder", type=Path, help="clone of vertex-ai-samples")
    parser.add_argument("--public", type=Path, help="folder of public buckets")
    parser.add_argument("--work", type=Path, help="folder for logs; default: a new one")
    parser.add_argument("--second", action="store_true", help="run the second twelve")
    parser.add_argument("names", nargs="*", help="notebooks below notebooks/official")
    arguments = parser.parse_intermixed_args()
    work = (arguments.work or Path(tempfile.mkdtemp(prefix="notebooks-"))).resolve()
    write_programs(work / "tools", TOOLS)
    write_programs(work / "not-here", NOT_HERE)
    public = arguments.public or work / "public"
    if not public.exists():
        subprocess.run([sys.executable, HERE / "stand_ins.py", public], check=True)
    home = work / "home"
    home.mkdir(exist_ok=True)
    (home / "tensorflow_datasets").unlink(missing_ok=True)
    (home / "tensorflow_datasets").symlink_to(public.resolve() / "tensorflow-datasets")
    write_wheel(work / WHEEL)
    (work / "requirements.txt").write_text(f"{work / WHEEL}\n")
    os.environ |= {
        "KERAS_STAND_INS": str(public.resolve() / "keras-datasets"),
        "PIP_REQUIREMENT": str(work / "requirements.txt"),  # of steps, which have their own Python
        "PATH": f"{work / 'tools'}:{os.environ['PATH']}",
        "XDG_CACHE_HOME": os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache"),
        "HOME": str(home),  # has the data sets
        "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION": "python",  # for packages of 2019 to 2022
        "VERTEX_LOCAL_UNPICKLING": "1",  # their models are their own
        "MPLBACKEND": "agg",
        "TF_USE_LEGACY_KERAS": "1",  # the notebooks are of TensorFlow 2.15 and older
    }
    # The wheel, which PIP_REQUIREMENT names.
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet"], check=True)
    names = arguments.names or (SECOND if arguments.second else list(NOTEBOOKS))
    num_done = 0
    for name in names:
        notebook = arguments.folder / "notebooks" / "official" / f"{name}.ipynb"
        folder = work / notebook.stem
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(public, folder / "buckets")
        result = run(notebook.resolve(), folder, path=f"{work / 'not-here'}:{os.environ['PATH']}")
        num_done += not result["error"]
        end = result["error"][:150].replace("\n", " ") or "to its end"
        print(f"{name:66} {result['done']:2} of {result['cells']:2}  {end}", flush=True)
    print(f"{num_done} of {len(names)} to their end")
    print(f"{work} has their logs, and in skipped.txt the shell commands that did nothing")
    sys.exit(len(names) - num_done)


def run(notebook: Path, folder: Path, *, path: str) -> dict[str, Any]:
    """Run a notebook against a service of its own, both in a folder; return its result."""
    buckets, result = folder / "buckets", folder / "result.json"
    result.write_text(json.dumps({"cells": 0, "done": 0, "error": "the first cell did not end"}))
    variables = {
        "VERTEX_LOCAL_BUCKETS": str(buckets),
        "NOTEBOOK_SKIPPED": str(folder / "skipped.txt"),
    }
    os.environ |= variables  # of the service as well
    options = ["--buckets", str(buckets), "--preload", "kfp.local,kfp.dsl.executor_main"]
    with testing.running(*options, root=folder / "vertex") as service:
        words = [sys.executable, str(HERE / "cells.py"), str(notebook), str(result)]
        program = [
            sys.executable,
            "-m",
            "vertex_local.cli",
            "exec",
            "--root",
            str(service.root),
            "--",
        ]
        (folder / "notebook").mkdir()
        with (folder / "notebook.log").open("w") as log:
            try:
                subprocess.run(
                    [*program, *words],
                    cwd=folder / "notebook",
                    env={**os.environ, "PATH": path},
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    timeout=TIMEOUT_SECONDS,
                    check=False,
                )
            except subprocess.TimeoutExpired:
                late = {"error": f"not done in {TIMEOUT_SECONDS:g} s"}
                return {**json.loads(result.read_text()), **late}
    ended: dict[str, Any] = json.loads(result.read_text())
    return ended


def write_programs(folder: Path, names: list[str]) -> None:
    """Write `command.py` as programs of these names."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_text(f"#!{sys.executable}\n{(HERE / 'command.py').read_text()}")
        (folder / name).chmod(0o755)


if __name__ == "__main__":
    main()
