"""Requirements of Vertex AI beyond the types of its protos, by the message that has them.

`comments.py` has what a sentence of the protos' comments says; here is the rest, each with a row in
`tests/requests.yaml` and its source.
"""

import re
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any

from vertex_local import Json
from vertex_local.api import comments
from vertex_local.api.json_errors import REQUIRED, has_behavior, is_nested
from vertex_local.errors import Violation

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FieldDescriptor

UNSET = "Required field is not set."
LABEL = re.compile(r"[\w-]{0,63}")
# As Vertex AI says: https://github.com/statmike/vertex-ai-mlops/issues/6
LABELS = (
    "There can be no more than 64 labels attached to a single resource. Label keys and values can "
    "only contain lowercase letters, numbers, dashes and underscores. Label keys must start with a "
    "letter or number, must be less than 64 characters in length, and must be less that 128 bytes "
    "in length when encoded in UTF-8. Label values must be less than 64 characters in length, and "
    "must be less that 128 bytes in length when encoded in UTF-8."
)
# https://cloud.google.com/vertex-ai/docs/training/configure-compute and
# …/predictions/configure-compute; of a family the form of its sizes is checked, not each size.
MACHINE_TYPE = re.compile(
    r"(n1|n2|n2d|n4|c2|c2d|c3|c3d|c4|e2)-(standard|highmem|highcpu)-[0-9]{1,3}(-lssd)?"
    r"|n1-(ultra|mega)mem-[0-9]{2,3}|m[1-3]-(ultra|mega)mem-[0-9]{2,3}|[gh][23]-standard-[0-9]{1,2}"
    r"|a[234]x?-(high|mega|ultra|edge)gpu-[0-9]{1,2}g(-nolssd)?|g4-standard-[0-9]{2,3}"
    r"|cloud-tpu|(ct|tpu)[0-9][a-z]{0,2}-(hightpu|standard)-[0-9]t(pu)?"
)
DEFAULT_MACHINE = "n1-standard-2"  # of a deployed model
# https://github.com/prefect-archive/prefect-gcp/issues/175
ACCELERATORS = "Both `accelerator_type` and `accelerator_count` should be specified or none. "
# AutoscalingMetricSpec.target; those of Google's SDK that are no utilization have other targets.
PERCENTAGES = ("cpu/utilization", "accelerator/duty_cycle")


def violations(
    message: "Descriptor", value: Json, path: str, *, fields: Collection[str] | None = None
) -> Iterator[Violation]:
    """Yield the fields of a message, as canonical JSON at `path`, that Vertex AI refuses, and why.

    Of an update only the `fields` that it changes are checked.
    """
    start = f"{path}." if path else ""
    name = message.full_name.removeprefix(f"{message.file.package}.")
    for broken in (comments.violations(name, value, fields=fields), _refused(name, value)):
        yield from ((start + field, text) for field, text in broken)
    for field in message.fields:
        if fields is not None and field.camelcase_name not in fields:
            continue
        if field.camelcase_name in value:
            yield from _field_violations(field, value[field.camelcase_name], start + field.name)
        elif has_behavior(field, REQUIRED):
            yield start + field.name, UNSET


def _refused(message: str, value: Json) -> Iterator[Violation]:
    match message:
        case "AutoscalingMetricSpec" if value.get("metricName", "").endswith(PERCENTAGES):
            if not 0 <= value.get("target", 0) <= 100:  # noqa: PLR2004
                yield "target", "The target of this metric is in percentage (1% - 100%)."
        case "BatchDedicatedResources" if "machineType" not in value.get("machineSpec", {}):
            yield "machine_spec.machine_type", UNSET
        case "DeployedModel" if "automaticResources" in value:
            # https://github.com/googleapis/python-aiplatform/issues/773
            problem = f"'automatic_resources' is not supported for Model {value.get('model')}."
            yield "automatic_resources", problem
        case "MachineSpec":
            machine = value.get("machineType", DEFAULT_MACHINE)
            if not MACHINE_TYPE.fullmatch(machine):
                yield "machine_type", f'Machine type "{machine}" is not supported.'
            if ("acceleratorType" in value) != ("acceleratorCount" in value):
                yield "accelerator_type", ACCELERATORS
        case "WorkerPoolSpec" if "replicaCount" in value:
            if "machineType" not in value.get("machineSpec", {}):
                yield "machine_spec.machine_type", UNSET


def _field_violations(field: "FieldDescriptor", value: Any, path: str) -> Iterator[Violation]:
    if field.name == "labels" and not _are_labels(value):
        yield path, LABELS
    elif is_nested(field):
        for index, part in enumerate(value if field.is_repeated else [value]):
            number = f"[{index}]" if field.is_repeated else ""
            yield from violations(field.message_type, part, path + number)


def _are_labels(labels: dict[str, str]) -> bool:
    texts = [*labels, *labels.values()]
    are_short = len(labels) <= 64 and all(len(text.encode()) < 128 for text in texts)  # noqa: PLR2004
    are_texts = all(LABEL.fullmatch(text) and text == text.lower() for text in texts)
    return are_short and are_texts and all(key[:1].isalnum() for key in labels)
