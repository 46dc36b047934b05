"""Files of a run that its report is drawn from: evaluation, statistics, log of metrics."""

import base64
import json
import math
from functools import cache
from pathlib import Path

import numpy as np

from trainer.metrics.class_metrics import count_confusion
from trainer.workloads.encoding.image_files import encode_png

SPEC = Path(__file__).parents[2] / "pipelines" / "package" / "golden" / "mnist.yaml"
HOSTILE = '<script>alert("1")</script>'


def two_classes(*, has_champion: bool = True) -> dict:
    """Return the evaluation of a model of two classes with slices."""
    steps = [number / 50 for number in range(51)]
    slices = [
        ("trip_start_hour", "0 to 5", 812, 0.931, 0.929, -0.008, 0.012, True),
        ("trip_start_hour", "6 to 11", 1204, 0.947, 0.94, 0.001, 0.013, True),
        ("payment_type", "Credit Card", 2210, 0.822, 0.81, 0.004, 0.02, True),
        ("payment_type", HOSTILE, 640, 0.71, 0.76, -0.081, -0.019, False),
        ("missing pickup_community_area", "", 230, 0.93, 0.93, -0.02, 0.02, True),
    ]
    names = ("feature", "value", "num_examples", "candidate", "champion", "low", "high", "ok")
    mistake = {"label": "no", "predicted": "yes", "confidence": 0.991}
    fields = {"company": "Flash Cab <b>", "fare": 12.25, "trip_start_hour": 17, "words": ["a", "b"]}
    rows = [dict(zip(names, one, strict=True)) | {"metric": "auc"} for one in slices]
    if not has_champion:
        rows = [{**one, "champion": None, "low": None, "high": None, "ok": True} for one in rows]
    return {
        "label_kind": "Binary",
        "labels": ["no", "yes"],
        "num_examples": 3000,
        "metrics": {"accuracy": 0.9053, "loss": 0.2107, "auc": 0.9461, "pr_auc": 0.861},
        "champion": {
            "version": "projects/p/locations/l/models/5@3",
            "metrics": {"accuracy": 0.9031, "loss": 0.2153, "auc": 0.9449, "pr_auc": None},
        }
        if has_champion
        else None,
        "baseline": None
        if has_champion
        else {"name": "linear", "metrics": {"accuracy": 0.87, "auc": 0.9}},
        "gain": {
            "metric": "auc",
            "difference": 0.0012,
            "low": 0.0002,
            "high": 0.0021,
            "confidence": 0.95,
            "words": "surely better by 0.0002 to 0.0021 (95 % interval)",
        },
        "slices": rows,
        "checks": [
            {"name": "auc", "value": 0.9461, "limit": 0.94, "ok": True, "text": "auc is fine"},
            {
                "name": "slice payment_type",
                "value": -0.05,
                "limit": -0.01,
                "ok": False,
                "text": f"slice payment_type {HOSTILE} is 0.0500 worse",
            },
        ],
        "curves": {
            "roc": {
                "false_positive": steps,
                "true_positive": [math.sqrt(math.sqrt(x)) for x in steps],
                "thresholds": steps,
            },
            "pr": {
                "recall": steps,
                "precision": [1 - 0.6 * x**3 for x in steps],
                "thresholds": steps,
            },
            "calibration": [
                {"predicted": x, "actual": min(x * 1.1, 1.0), "num_examples": 300}
                for x in (0.01, 0.05, 0.1, 0.2, 0.4, 0.6, 0.9)
            ],
        },
        **counted([[2200, 120], [160, 520]]),
        "by_label": [],
        "mistakes": [
            {"index": 7, **mistake, "instance": fields},
            {"index": 9, **mistake, "instance": fields},
        ],
    }


def ten_classes() -> dict:
    """Return the evaluation of a model of images; the mistakes are pictures."""
    digits = range(10)
    pixels = np.add.outer(np.arange(28), np.arange(28)).astype(np.uint8) * 4
    image = "data:image/png;base64," + base64.b64encode(encode_png(pixels)).decode()
    return {
        "label_kind": "Classes",
        "labels": [str(digit) for digit in digits],
        "num_examples": 1000,
        "metrics": {"accuracy": 0.987, "loss": 0.041},
        "champion": None,
        "baseline": None,
        "gain": None,
        "slices": [],
        "checks": [
            {"name": "accuracy", "value": 0.987, "limit": 0.985, "ok": True, "text": "accuracy ok"}
        ],
        "curves": {},
        **counted([[98 if a == b else int((a + b) % 7 == 0) for b in digits] for a in digits]),
        "by_label": [],
        "mistakes": [
            {"index": n, "label": "3", "predicted": "5", "confidence": 0.9, "image": image}
            for n in range(12)
        ],
    }


def counted(confusion: list[list[int]]) -> dict:
    """Return the confusion of classes, as an evaluation has it, of a matrix."""
    matrix = np.array(confusion)
    size, counts = len(matrix), matrix.ravel()
    true, predicted = np.divmod(np.arange(size**2).repeat(counts), size)
    return count_confusion(true, predicted, size)


def a_number() -> dict:
    """Return the evaluation of a model of a number."""
    shares = [-2.0, -0.8, 0.1, 0.9, 2.2]
    return {
        "label_kind": "Regression",
        "labels": [],
        "num_examples": 500,
        "metrics": {"loss": 4.2, "mae": 1.5, "rmse": 2.05, "r2": 0.83},
        "slices": [],
        "checks": [],
        "curves": {
            "residuals": [
                {"num_examples": 50, "residual_shares": [share * (1 + n / 5) for share in shares]}
                for n in range(10)
            ],
            "points": {
                "actual": [float(n % 40) for n in range(200)],
                "predicted": [n % 40 + math.sin(n) * 3 for n in range(200)],
            },
        },
        "confusion": [],
        "by_label": [],
        "mistakes": [],
    }


def statistics(*, shift: float = 0.0) -> dict:
    """Return the statistics of a table of two features."""
    fare = {
        "type": "FLOAT",
        "num_present": 1000,
        "num_missing": 0,
        "num_unique": 900,
        "top_values": [],
        "quantiles": [number + shift for number in range(101)],
    }
    company = {
        "type": "STRING",
        "num_present": 900,
        "num_missing": 100,
        "num_unique": 2,
        "top_values": [[f"Flash {HOSTILE}", 600 + shift], ["Blue", 300 - shift]],
        "quantiles": None,
    }
    features = {"fare": fare, "company": company}
    return {
        "workload": "taxi",
        "splits": {
            name: {"num_examples": count, "features": features}
            for name, count in (("train", 12000), ("eval", 1500), ("test", 1500))
        },
    }


def progress(*, slower: float = 1.0) -> list[dict]:
    """Return the lines of metrics.jsonl."""
    lines = []
    for step in range(50, 1001, 50):
        loss = 0.2 + slower / (1 + step / 100)
        line = {"step": step, "loss": loss, "accuracy": 1 - loss / 2, "time": 1.0}
        speed = {"learning_rate": 0.001, "examples_per_second": 9000.0 + step, "step_ms": 2.0}
        lines.append({**line, **speed, "split": "train"})
        if step % 200 == 0:
            lines.append({**line, "loss": loss + 0.05, "split": "eval"})
    return lines


def replicas() -> dict:
    """Return the response of a job's `replicas`, which have ended."""
    return {
        "replicas": [
            {"name": name, "cpuSeconds": 61.5, "peakMemoryBytes": 500_000_000}
            for name in ("chief/0", "worker/0")
        ]
    }


@cache
def pipeline_spec() -> dict:
    """Return the compiled pipeline."""
    import yaml

    spec, *_ = yaml.load_all(SPEC.read_text(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    return spec


def run_with_files(
    folder: Path,
    *,
    evaluation: dict | None,
    name: str = "taxi-1",
    verdict: str = "passed",
    slower: float = 1.0,
) -> dict:
    """Write the files of a run into a folder and return its PipelineJob."""
    spec = pipeline_spec()
    champion, examples, logs = folder / "champion", folder / "examples", folder / "base" / "logs"
    for one in (champion, examples, logs):
        one.mkdir(parents=True)
    (champion / "statistics.json").write_text(json.dumps(statistics()))
    (examples / "statistics.json").write_text(json.dumps(statistics(shift=30)))
    lines = [json.dumps(line) for line in progress(slower=slower)]
    (logs / "metrics.jsonl").write_text("\n".join(lines) + '\n{"step": 10')
    if evaluation is not None:
        (folder / "evaluation.json").write_text(json.dumps(evaluation))
    found = {"evaluation": artifact(folder / "evaluation.json")}
    started = {"champion_uri": str(champion), "fingerprint": "sha256:" + "a" * 64}
    return {
        "name": f"projects/p/locations/l/pipelineJobs/{name}",
        "state": "PIPELINE_STATE_SUCCEEDED",
        "createTime": "2026-11-22T10:00:00Z",
        "endTime": "2026-11-22T10:01:35Z",
        "pipelineSpec": spec,
        "runtimeConfig": {
            "parameterValues": {
                "workload": "taxi",
                "model_name": "taxi",
                "cluster": '{"strategy": "single", "machine": "n1-standard-4"}',
                "train": '{"epochs": 3}',
            }
        },
        "jobDetail": {
            "taskDetails": [
                done("start", 0, 2, values=started),
                done("prepare-examples", 2, 20, artifacts={"examples": artifact(examples)})
                | {"state": "SKIPPED"},
                done("plan-training", 20, 21, values={"base_output_directory": str(logs.parent)}),
                done("train", 21, 80),
                done("evaluate", 80, 90, values={"verdict": verdict}, artifacts=found),
                {"taskName": "release-model", "state": "NOT_TRIGGERED"},
            ]
        },
    }


def artifact(path: Path) -> dict:
    """Return an artifact of a file or folder."""
    return {"artifacts": [{"uri": str(path), "metadata": {}}]}


def done(
    name: str,
    start: int,
    end: int,
    *,
    values: dict | None = None,
    artifacts: dict | None = None,
) -> dict:
    """Return the details of a task that has succeeded, at seconds after the run's creation."""
    moments = [f"2026-11-22T10:{second // 60:02}:{second % 60:02}Z" for second in (start, end)]
    return {
        "taskName": name,
        "state": "SUCCEEDED",
        "startTime": moments[0],
        "endTime": moments[1],
        "execution": {"metadata": {f"output:{key}": one for key, one in (values or {}).items()}},
        "outputs": artifacts or {},
    }
