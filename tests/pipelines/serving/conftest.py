"""Versions of a model whose server starts at once."""

from collections.abc import Callable
from pathlib import Path

import pytest

from components.model_version.companions import GOLDEN_FILE, write_companion
from components.shared.vertex.api import VertexApi
from components.shared.vertex.labels import MODEL_LABEL, STATE_LABEL
from components.shared.vertex.resource_name import ResourceName
from tests.support.servers.models import upload_version
from vertex_local.tests.support.service import container_spec


@pytest.fixture
def version(api: VertexApi, tmp_path: Path) -> Callable[..., ResourceName]:
    """Upload a version of `tiny`, whose golden prediction is right or wrong."""
    folder = tmp_path / "artifact"

    def do(
        *, is_right: bool = True, words: tuple[str, ...] = ("classes",), state: str = "", digest=""
    ) -> ResourceName:
        folder.mkdir(exist_ok=True)
        (folder / "saved_model.pb").write_bytes(b"model")
        # Of the tiny server's `classes`.
        prediction = {"class": 0, "label": "a", "probabilities": [0.75, 0.25 if is_right else 0.5]}
        golden = {"instances": [{"x": 1}], "predictions": [prediction], "labels": ["a"]}
        write_companion(str(folder), GOLDEN_FILE, golden)
        labels = {STATE_LABEL: state, MODEL_LABEL: digest}
        model = {
            "displayName": "tiny",
            "artifactUri": str(folder),
            "containerSpec": container_spec(*words),
            "labels": {name: label for name, label in labels.items() if label},
            "versionDescription": "auc 0.8 is at least 0.7" if state else "",
        }
        return upload_version(api, model)

    return do
