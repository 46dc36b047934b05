"""The step: serves the model, sends requests in every wire form and compares the predictions."""

import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from components.check_model.server import local_session, serving
from components.errors import StepError
from components.model_version.saved_model import DESCRIPTION
from components.predict.parity import check_parity
from trainer.workloads.base import Workload
from trainer.workloads.description import read_description

logger = logging.getLogger(__name__)

REQUEST_TIMEOUT_SECONDS = 60.0
KEY = "key"


def check_served_model(model_dir: str, *, golden_path: str) -> int:
    """Serve a model on this machine and compare its predictions with the golden ones.

    Args:
        model_dir: The SavedModel.
        golden_path: JSON file that `evaluate` wrote: instances, offline predictions, true labels.

    Returns:
        The number of predictions that were compared.

    Raises:
        StepError: The server does not start, refuses a request, or a prediction differs; names the
            wire form.
    """
    golden = json.loads(Path(golden_path).read_text())
    with serving(model_dir) as url:
        workload = read_description(json.loads(Path(model_dir, DESCRIPTION).read_text()))
        requests_by_form = wire_requests(workload, golden["instances"])
        for form, instances in requests_by_form.items():
            _check_form(url, form, instances, golden)
    num_compared = sum(map(len, requests_by_form.values()))
    forms = ", ".join(requests_by_form)
    logger.info("the server repeats %d offline predictions (forms: %s)", num_compared, forms)
    return num_compared


def wire_requests(workload: Workload, instances: list[Any]) -> dict[str, list[Any]]:
    """Return the instances in each form that a request may have, by the name of the form."""
    rows = [workload.parse_instance(instance) for instance in instances]
    forms = [workload.wire_forms({name: value[()] for name, value in row.items()}) for row in rows]
    found = {name: [form[name] for form in forms] for name in forms[0]}
    first = next(iter(found.values()))
    if all(isinstance(instance, dict) for instance in first):
        found["keyed"] = [{**instance, KEY: index} for index, instance in enumerate(first)]
    return found


def _check_form(url: str, form: str, instances: list[Any], golden: Mapping[str, Any]) -> None:
    body = {"instances": instances}
    with local_session() as session:
        response = session.post(url, json=body, timeout=REQUEST_TIMEOUT_SECONDS)
    if not response.ok:
        raise StepError(
            f"the prediction server refused instances in the form {form!r}: "
            f"{response.status_code}: {response.text[:500]}"
        )
    predictions = response.json()["predictions"]
    try:
        check_parity(predictions, golden["predictions"], golden["labels"])
    except StepError as error:
        raise StepError(f"instances in the form {form!r}: {error}") from error
    if form == "keyed":
        _check_keys([prediction.get(KEY) for prediction in predictions])


def _check_keys(keys: list[Any]) -> None:
    if keys != list(range(len(keys))):
        raise StepError(f"instances had the keys 0 to {len(keys) - 1}, predictions have {keys}")
