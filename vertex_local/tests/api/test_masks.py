"""Partial responses."""

import pytest

from vertex_local.api.query import masks
from vertex_local.errors import ApiError

pytestmark = pytest.mark.fast

MODEL = {
    "name": "m",
    "displayName": "d",
    "labels": {"a_key": "1", "b": "2"},
    "containerSpec": {"imageUri": "i", "env": [{"name": "A", "value": "1"}]},
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", MODEL),
        ("*", MODEL),
        ("name", {"name": "m"}),
        ("name, display_name", {"name": "m", "displayName": "d"}),
        ("etag", {}),
        ("labels.a_key", {"labels": {"a_key": "1"}}),
        ("models(labels(any-key)),pipeline_spec.pipeline_info", {}),
        ("containerSpec/imageUri", {"containerSpec": {"imageUri": "i"}}),
        ("container_spec.env.name", {"containerSpec": {"env": [{"name": "A"}]}}),
        (
            "containerSpec(imageUri,env(value))",
            {"containerSpec": {"imageUri": "i", "env": [{"value": "1"}]}},
        ),
        ("containerSpec.imageUri,containerSpec", {"containerSpec": MODEL["containerSpec"]}),
        ("containerSpec,containerSpec.imageUri", {"containerSpec": MODEL["containerSpec"]}),
        (
            "containerSpec.imageUri,containerSpec.env.name",
            {"containerSpec": {"imageUri": "i", "env": [{"name": "A"}]}},
        ),
    ],
)
def test_a_mask_selects_fields(text, expected):
    assert masks.apply(masks.parse(text, parameter="fields"), MODEL) == expected


@pytest.mark.parametrize(
    "text", ["potato", "name,", "name(", "models(name", "models/potato", ")", "a," * 1001]
)
def test_an_invalid_mask_is_refused(text):
    with pytest.raises(ApiError, match=r"Invalid field selection .* in readMask"):
        masks.parse(text, parameter="readMask")
