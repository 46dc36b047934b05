"""Models over the official SDK and over plain HTTP."""

from pathlib import Path


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
    error = service.call("DELETE", f"/v1/{name}@1:deleteVersion").json()["error"]
    assert error["status"] == "FAILED_PRECONDITION"
    assert "delete the model" in error["message"]
    for _ in range(2):
        upload(parentModel=name)
    service.do("DELETE", f"/v1/{name}@default:deleteVersion")
    assert service.do("GET", f"/v1/{name}")["versionId"] == "3"
    assert upload(parentModel=name)["modelVersionId"] == "4"
