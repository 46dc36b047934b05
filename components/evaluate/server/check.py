"""Check of a served model: requests of every kind, compared predictions, and latency."""

import base64
import json
import logging
from collections.abc import Mapping
from typing import Any

import numpy as np

from components.endpoint.predict.parity import MAX_REQUEST_BYTES, check_parity, num_fitting
from components.errors import StepError
from components.evaluate.gate.options import GateOptions
from components.evaluate.server.load import check_latency
from components.evaluate.server.server import local_session
from trainer import Json
from trainer.workloads.base import Workload

logger = logging.getLogger(__name__)

REQUEST_TIMEOUT_SECONDS = 60.0
KEY = "key"
LARGE_BATCH = 128


def check_served_model(
    url: str, golden: Json, *, workload: Workload, options: GateOptions
) -> dict[str, float]:
    """Compare a server's predictions with the golden ones in every form, and measure its latency.

    Returns:
        The latencies under load, by name.

    Raises:
        StepError: The server refuses a request, a prediction differs, or it is too slow; names the
            kind of request.
    """
    batches = golden_batches(workload, golden)
    for form, batch in batches.items():
        _check_form(url, form, batch)
    load = check_latency(
        url,
        batches["object"]["instances"],
        clients=options.latency_clients,
        max_latency_ms=options.max_latency_ms,
    )
    logger.info(
        "the server repeats %d offline predictions (%s); with %d clients the latency is %.1f ms "
        "(median), %.1f ms (99th percentile)",
        sum(len(batch["instances"]) for batch in batches.values()),
        ", ".join(batches),
        load.clients,
        load.p50_ms,
        load.p99_ms,
    )
    return load.values()


def golden_batches(workload: Workload, golden: Json) -> dict[str, Json]:
    """Return golden batches to send: in each form, one instance alone, and 128 or what fits.

    A form without instances that fit into a request is left out, and logged.
    """
    batches = {}
    for form, instances in wire_requests(workload, golden["instances"]).items():
        size = num_fitting(instances)
        if size:
            batches[form] = _of_size({**golden, "instances": instances}, size)
        else:
            logger.info(
                "the form %r is not checked: an instance has more than the %s bytes of a request",
                form,
                f"{MAX_REQUEST_BYTES:,}",
            )
    shortest = min(batches.values(), key=lambda batch: len(json.dumps(batch["instances"])))
    num_bytes = len(json.dumps(shortest["instances"])) / len(shortest["instances"])
    size = max(1, min(LARGE_BATCH, int(MAX_REQUEST_BYTES / num_bytes)))
    return {
        **batches,
        "1 instance": _of_size(shortest, 1),
        f"{size} instances": _of_size(shortest, size),
    }


def wire_requests(workload: Workload, instances: list[Any]) -> dict[str, list[Any]]:
    """Return the instances in each form that a request may have, by the name of the form."""
    rows = [workload.parse_instance(instance) for instance in instances]
    forms = [workload.wire_forms({name: value[()] for name, value in row.items()}) for row in rows]
    requests = {name: [form[name] for form in forms] for name in forms[0]}
    requests["example"] = [as_example(row) for row in rows]
    first = next(iter(requests.values()))
    if all(isinstance(instance, dict) for instance in first):
        requests["keyed"] = [{**instance, KEY: index} for index, instance in enumerate(first)]
    return requests


def _of_size(batch: Json, size: int) -> Json:
    return {
        name: [values[index % len(values)] for index in range(size)]
        for name, values in batch.items()
    }


def _check_form(url: str, form: str, batch: Mapping[str, Any]) -> None:
    body = {"instances": batch["instances"]}
    with local_session() as session:
        response = session.post(url, json=body, timeout=REQUEST_TIMEOUT_SECONDS)
    if not response.ok:
        raise StepError(
            f"the prediction server refused instances in the form {form!r}: "
            f"{response.status_code}: {response.text[:500]}"
        )
    predictions = response.json()["predictions"]
    try:
        check_parity(predictions, batch["predictions"], batch["labels"])
    except StepError as error:
        raise StepError(f"instances in the form {form!r}: {error}") from error
    if form == "keyed":
        keys = [prediction.get(KEY) for prediction in predictions]
        if keys != list(range(len(keys))):
            raise StepError(f"instances had the keys 0 to {len(keys) - 1}, predictions have {keys}")


def as_example(features: Mapping[str, Any]) -> Json:
    """Return the instance {"b64": …} of an example's raw features, given as arrays."""
    import tensorflow as tf

    feature = {name: _feature(np.asarray(column)) for name, column in features.items()}
    example = tf.train.Example(features=tf.train.Features(feature=feature))
    return {"b64": base64.b64encode(example.SerializeToString()).decode("ascii")}


def _feature(values: np.ndarray[Any, Any]) -> Any:
    import tensorflow as tf

    if values.dtype.kind == "f":
        return tf.train.Feature(float_list=tf.train.FloatList(value=values.ravel()))
    if values.dtype.kind in "iu" and values.dtype != np.uint8:
        return tf.train.Feature(int64_list=tf.train.Int64List(value=values.ravel()))
    texts = [values.tobytes()] if values.dtype == np.uint8 else values.ravel().tolist()  # pixels
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=texts))
