"""Models over the official SDK and over plain HTTP."""

from pathlib import Path

import pytest
from google.api_core import exceptions


# Without artifact_uri: `Model.upload` stages every folder that is not gs:// in a bucket first.
def test_sdk_uploads_versions_and_moves_aliases(service, aiplatform):
    first = aiplatform.Model.upload(
        display_name="digits",
        serving_container_image_uri="example.invalid/tiny",
        serving_container_command=["python", "-c", "pass"],
        labels={"run": "a"},
        version_aliases=["golden"],
    )
    assert first.version_id == "1"
    assert sorted(first.version_aliases) == ["default", "golden"]

    second = aiplatform.Model.upload(
        parent_model=first.resource_name,
        display_name="digits",
        serving_container_image_uri="example.invalid/tiny",
        is_default_version=False,
    )
    assert second.version_id == "2"
    registry = aiplatform.models.ModelRegistry(first.resource_name)
    assert [v.version_id for v in registry.list_versions()] == ["1", "2"]
    assert registry.get_model("golden").version_id == "1"

    registry.add_version_aliases(["default", "golden"], version="2")
    registry.add_version_aliases(["previous"], version="1")
    assert registry.get_model().version_id == "2"
    assert registry.get_version_info("1").version_aliases == ["previous"]
    registry.remove_version_aliases(["golden"], version="2")
    with pytest.raises(exceptions.NotFound):
        registry.get_model("golden")

    assert [m.version_id for m in aiplatform.Model.list(filter='display_name="digits"')] == ["2"]
    assert aiplatform.Model.list(filter='display_name="letters"') == []
    registry.delete_version("1")
    first.delete()
    assert aiplatform.Model.list() == []


def test_the_artifact_uri_of_a_model_is_that_of_the_copy(service, upload, artifact_folder):
    model = upload()
    stored = service.do("GET", f"/v1/{model['model']}")
    copy = Path(stored["artifactUri"])
    model_id = model["model"].rpartition("/")[2]
    assert copy == service.root / "models" / model_id / "1"
    for path in ("saved_model.pb", "variables/data"):
        assert (copy / path).read_bytes() == (artifact_folder / path).read_bytes()
    service.do("DELETE", f"/v1/{model['model']}")
    assert not copy.exists()


def test_upload_response_is_an_upload_model_response(upload, service):
    response = upload(modelId="digits")
    assert response == {
        "@type": "type.googleapis.com/google.cloud.aiplatform.v1.UploadModelResponse",
        "model": f"{service.parent}/models/digits",
        "modelVersionId": "1",
    }


def test_upload_that_cannot_be_written_fails_and_leaves_nothing(own_service, artifact_folder):
    (own_service.root / "models").write_text("a file where the folder should be")
    model = {"displayName": "tiny", "artifactUri": str(artifact_folder)}
    operation = own_service.wait_for(
        own_service.call("POST", "models:upload", {"model": model}).json()
    )
    assert "models" in operation["error"]["message"]
    assert own_service.do("GET", "models")["models"] == []


def test_only_version_cannot_be_deleted_and_default_moves_to_the_newest(service, upload):
    name = upload()["model"]
    response = service.call("DELETE", f"/v1/{name}@1:deleteVersion")
    assert response.json()["error"]["status"] == "FAILED_PRECONDITION"
    for _ in range(2):
        upload(parentModel=name)
    service.do("DELETE", f"/v1/{name}@default:deleteVersion")
    assert service.do("GET", f"/v1/{name}")["versionId"] == "3"
    assert upload(parentModel=name)["modelVersionId"] == "4"


def test_update_changes_what_the_mask_names(service, aiplatform, upload):
    model = aiplatform.Model(upload()["model"])
    model.update(display_name="renamed", labels={"team": "a"})
    stored = service.do("GET", f"/v1/{model.resource_name}")
    assert (stored["displayName"], stored["labels"]) == ("renamed", {"team": "a"})
