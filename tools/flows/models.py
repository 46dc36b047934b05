"""Flows of models and endpoints: test_model_upload.py, test_model_version_management.py, ….

Also test_model_interactions.py, test_model_evaluation.py, test_private_endpoint.py.
"""

import asyncio
import json
from pathlib import Path

from google.api_core import exceptions
from google.cloud import aiplatform, aiplatform_v1
from google.cloud.aiplatform.models import ModelRegistry

from tools.flows.calls import Calls
from vertex_local.tests.support.service import SERVER_SCRIPT

SERVER = {
    "serving_container_image_uri": "any",
    "serving_container_command": ["python", str(SERVER_SCRIPT)],
}
MACHINE = {"machine_type": "n1-standard-2"}
SCHEMA = "gs://google-cloud-aiplatform/schema/modelevaluation/classification_metrics_1.0.0.yaml"


def folder() -> Path:
    """Write a folder like an exported model."""
    path = Path("model")
    path.mkdir(exist_ok=True)
    (path / "saved_model.pb").write_text("model")
    return path


def uploaded(**fields) -> aiplatform.Model:
    return aiplatform.Model.upload(
        **{"display_name": "mine", "artifact_uri": str(folder().absolute()), **SERVER, **fields}
    )


def models(calls: Calls) -> None:
    """Upload, versions, aliases, evaluations, delete."""
    model = calls("upload", lambda: uploaded(version_aliases=["first"], labels={"team": "a"}))
    calls("display_name", lambda: model.display_name == "mine")
    calls("uri", lambda: model.uri.startswith("gs://"))
    calls("container_spec", lambda: bool(model.container_spec.command))
    calls(
        "version_id",
        lambda: (model.version_id, model.version_aliases) == ("1", ["first", "default"]),
    )
    calls("upload bucket", lambda: uploaded(artifact_uri=in_bucket()))
    calls("upload container", lambda: aiplatform.Model.upload(display_name="c", **SERVER))
    calls("upload asynchronously", lambda: uploaded(sync=False).wait())
    calls("upload id", lambda: uploaded(model_id="mine-1").name == "mine-1")
    calls.raises("upload id again", exceptions.Conflict, lambda: uploaded(model_id="mine-1"))
    calls(
        "upload_tensorflow_saved_model",
        lambda: aiplatform.Model.upload_tensorflow_saved_model(str(folder())),
    )
    calls(
        "upload_xgboost_model_file",
        lambda: aiplatform.Model.upload_xgboost_model_file(file("m.bst")),
    )
    calls(
        "upload_scikit_learn_model_file",
        lambda: aiplatform.Model.upload_scikit_learn_model_file(file("m.joblib")),
    )
    second = calls(
        "upload version",
        lambda: uploaded(
            parent_model=model.resource_name, is_default_version=False, version_description="next"
        ),
    )
    calls(
        "second version",
        lambda: (
            (second.version_id, second.version_aliases, second.version_description)
            == ("2", [], "next")
        ),
    )
    registry = calls("ModelRegistry", lambda: ModelRegistry(model))
    calls(
        "list_versions", lambda: [one.version_id for one in registry.list_versions()] == ["1", "2"]
    )
    calls("get_version_info", lambda: registry.get_version_info("first").version_id == "1")
    calls("get_model", lambda: registry.get_model("2").version_id == "2")
    calls("add_version_aliases", lambda: registry.add_version_aliases(["new"], "2"))
    calls("remove_version_aliases", lambda: registry.remove_version_aliases(["new"], "2"))
    calls("alias removed", lambda: registry.get_model("2").version_aliases == [])
    calls("get", lambda: aiplatform.Model(model.name).resource_name == model.resource_name)
    calls("list", lambda: model.name in [one.name for one in aiplatform.Model.list()])
    calls("list filter", lambda: len(aiplatform.Model.list(filter="labels.team=a")) == 1)
    calls(
        "update",
        lambda: aiplatform.Model(model.name).update(
            display_name="new", description="d", labels={"a": "b"}
        ),
    )
    calls(
        "updated",
        lambda: model_fields(aiplatform.Model(model.name)) == ("new", "d", "b"),
    )
    model = aiplatform.Model(model.resource_name)
    client = calls("ModelServiceClient", aiplatform_v1.ModelServiceClient)
    evaluation = {"display_name": "e", "metrics_schema_uri": SCHEMA, "metrics": {"auPrc": 0.5}}
    calls(
        "import_model_evaluation",
        lambda: client.import_model_evaluation(
            parent=model.resource_name, model_evaluation=evaluation
        ),
    )
    calls("list_model_evaluations", lambda: model.list_model_evaluations()[0].display_name == "e")
    calls("get_model_evaluation", lambda: model.get_model_evaluation().metrics["auPrc"] == 0.5)
    calls("delete_version", lambda: registry.delete_version("2"))
    calls("copy", lambda: model.copy(destination_location="europe-west4"))
    calls("export_model", lambda: exported(model))
    calls("delete", model.delete)
    calls.raises("get deleted", exceptions.NotFound, lambda: aiplatform.Model(model.name).uri)


def exported(model) -> bool:
    from google.cloud import storage

    uri = model.export_model("custom-trained", "gs://staging/out")["artifactOutputUri"]
    return storage.Blob.from_uri(f"{uri}/saved_model.pb", client=storage.Client()).exists()


def in_bucket() -> str:
    from google.cloud import storage

    storage.Client().bucket("staging").blob("m/saved_model.pb").upload_from_string("model")
    return "gs://staging/m"


def file(name: str) -> str:
    Path(name).write_text("model")
    return name


def endpoints(calls: Calls) -> None:
    """Deploy, predict, split the traffic, undeploy, delete."""
    model = calls("upload", uploaded)
    endpoint = calls(
        "create", lambda: aiplatform.Endpoint.create(display_name="e", labels={"team": "a"})
    )
    calls("create id", lambda: aiplatform.Endpoint.create("f", endpoint_id="77").name == "77")
    calls("get", lambda: aiplatform.Endpoint(endpoint.name).display_name == "e")
    calls("list", lambda: len(aiplatform.Endpoint.list()) == 2)
    calls("list filter", lambda: len(aiplatform.Endpoint.list(filter="labels.team=a")) == 1)
    calls("update", lambda: endpoint.update(display_name="new", labels={"a": "b"}))
    calls("updated", lambda: (endpoint.display_name, endpoint.labels) == ("new", {"a": "b"}))
    calls("deploy", lambda: endpoint.deploy(model, deployed_model_display_name="d", **MACHINE))
    calls("list_models", lambda: [one.display_name for one in endpoint.list_models()] == ["d"])
    calls("predict", lambda: doubled(endpoint.predict([4])) == 8)
    calls("predict parameters", lambda: doubled(endpoint.predict([4], parameters={"a": 1})) == 8)
    calls("predict timeout", lambda: doubled(endpoint.predict([4], timeout=30)) == 8)
    calls("predict raw", lambda: doubled(endpoint.predict([4], use_raw_predict=True)) == 8)
    calls("raw_predict", lambda: raw(endpoint)["predictions"][0]["double"] == 8)
    calls("predict_async", lambda: doubled(asyncio.run(endpoint.predict_async([4]))) == 8)
    calls.raises("wrong instance", exceptions.BadRequest, lambda: endpoint.predict(["x"]))
    calls("deploy second", lambda: endpoint.deploy(model, traffic_percentage=50, **MACHINE))
    calls("traffic_split", lambda: sorted(endpoint.traffic_split.values()) == [50, 50])
    calls("update split", lambda: split(endpoint))
    calls("undeploy split", lambda: undeployed(endpoint))
    calls(
        "deploy split",
        lambda: endpoint.deploy(
            model, traffic_split={"0": 30, endpoint.list_models()[0].id: 70}, **MACHINE
        ),
    )
    calls(
        "deploy accelerator",
        lambda: endpoint.deploy(
            model,
            traffic_percentage=0,
            accelerator_type="NVIDIA_TESLA_T4",
            accelerator_count=1,
            machine_type="n1-standard-4",
        ),
    )
    calls(
        "deploy autoscaled",
        lambda: endpoint.deploy(
            model,
            traffic_percentage=0,
            min_replica_count=1,
            max_replica_count=3,
            autoscaling_target_cpu_utilization=70,
            **MACHINE,
        ),
    )
    calls(
        "deploy account",
        lambda: endpoint.deploy(model, traffic_percentage=0, service_account="me@p.iam", **MACHINE),
    )
    calls("deploy without machine", lambda: endpoint.deploy(model, traffic_percentage=0))
    calls("undeploy_all", endpoint.undeploy_all)
    calls("undeployed", lambda: endpoint.list_models() == [])
    calls("Model.deploy", lambda: model.deploy(**MACHINE).delete(force=True))
    calls("deploy asynchronously", lambda: asynchronous(model))
    calls("Model in use", lambda: in_use(model))
    calls("mutate", lambda: mutated(model))
    private = calls(
        "PrivateEndpoint.create",
        lambda: aiplatform.PrivateEndpoint.create("p", network="projects/1/global/networks/n"),
    )
    calls("PrivateEndpoint.deploy", lambda: private.deploy(model, **MACHINE))
    calls("PrivateEndpoint.list", lambda: len(aiplatform.PrivateEndpoint.list()) == 1)
    calls("PrivateEndpoint.undeploy", private.undeploy_all)
    calls("PrivateEndpoint.delete", private.delete)
    dedicated = calls(
        "create dedicated", lambda: aiplatform.Endpoint.create("d", dedicated_endpoint_enabled=True)
    )
    calls("deploy dedicated", lambda: dedicated.deploy(model, **MACHINE))
    calls(
        "predict dedicated",
        lambda: doubled(dedicated.predict([4], use_dedicated_endpoint=True)) == 8,
    )
    calls("stream_raw_predict", lambda: streamed(dedicated))
    calls("direct_predict", lambda: dedicated.direct_predict([{"float_val": [4]}]))
    calls("explain", lambda: dedicated.explain([4]))
    calls(
        "DeploymentResourcePool",
        lambda: aiplatform.DeploymentResourcePool.create("pool", **MACHINE),
    )
    calls("delete force", lambda: dedicated.delete(force=True))
    calls("delete", endpoint.delete)
    calls.raises(
        "get deleted", exceptions.NotFound, lambda: aiplatform.Endpoint(endpoint.name).labels
    )


def doubled(prediction) -> float:
    return prediction.predictions[0]["double"]


def raw(endpoint) -> dict:
    body = json.dumps({"instances": [4]}).encode()
    return endpoint.raw_predict(body, {"Content-Type": "application/json"}).json()


def streamed(endpoint) -> bool:
    body = json.dumps({"instances": [4]}).encode()
    return b"double" in b"".join(endpoint.stream_raw_predict(body, {}))


def split(endpoint) -> bool:
    one, two = (deployed.id for deployed in endpoint.list_models())
    endpoint.update(traffic_split={one: 20, two: 80})
    return endpoint.traffic_split == {one: 20, two: 80}


def undeployed(endpoint) -> bool:
    one, two = (deployed.id for deployed in endpoint.list_models())
    endpoint.undeploy(one, traffic_split={two: 100})
    return endpoint.traffic_split == {two: 100}


def asynchronous(model) -> bool:
    endpoint = model.deploy(sync=False, **MACHINE)
    endpoint.wait()
    endpoint.undeploy_all()
    endpoint.delete()
    return True


def in_use(model) -> bool:
    endpoint = model.deploy(**MACHINE)
    try:
        model.delete()
    except exceptions.BadRequest:
        return len(model.gca_resource.deployed_models) >= 0
    finally:
        endpoint.delete(force=True)
    return False


def mutated(model) -> bool:
    endpoint = model.deploy(**MACHINE)
    deployed = endpoint.list_models()[0]
    client = aiplatform_v1.EndpointServiceClient()
    change = {"id": deployed.id, "dedicated_resources": {"max_replica_count": 4}}
    operation = client.mutate_deployed_model(
        endpoint=endpoint.resource_name,
        deployed_model=change,
        update_mask={"paths": ["dedicated_resources.max_replica_count"]},
    )
    maximum = operation.result(60).deployed_model.dedicated_resources.max_replica_count
    endpoint.delete(force=True)
    return maximum == 4


def model_fields(model) -> tuple:
    return model.display_name, model.description, model.labels["a"]
