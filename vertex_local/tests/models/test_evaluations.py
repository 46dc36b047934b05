"""Model evaluations over the official client and over plain HTTP."""

import pytest
from google.api_core import exceptions
from google.cloud import aiplatform_v1

EVALUATION = {
    "displayName": "test split",
    "metricsSchemaUri": "gs://google-cloud-aiplatform/schema/modelevaluation/x.yaml",
    "metrics": {"auRoc": 0.75, "confusionMatrix": {"rows": [[3, 1], [0, 4]]}},
    "metadata": {"verdict": "passed"},
}


def test_an_evaluation_is_of_one_version_and_goes_with_it(service, upload):
    first = upload()["model"]
    upload(parentModel=first)

    made = service.do("POST", f"/v1/{first}@2/evaluations:import", {"modelEvaluation": EVALUATION})
    of_default = service.do("POST", f"/v1/{first}/evaluations:import", {"modelEvaluation": {}})

    assert made["name"].startswith(f"{first}@2/evaluations/")
    assert of_default["name"].startswith(f"{first}@1/evaluations/")
    found = service.do("GET", f"/v1/{made['name']}")
    assert {name: found[name] for name in EVALUATION} == EVALUATION
    assert found["createTime"]
    listed = service.do("GET", f"/v1/{first}@2/evaluations")["modelEvaluations"]
    assert [one["name"] for one in listed] == [made["name"]]
    service.do("DELETE", f"/v1/{first}@2:deleteVersion")
    assert service.call("GET", f"/v1/{made['name']}").status_code == 404
    service.do("DELETE", f"/v1/{first}")
    assert service.call("GET", f"/v1/{of_default['name']}").status_code == 404


def test_the_official_client_imports_gets_and_lists(service, upload, aiplatform):
    model = aiplatform.Model(upload()["model"])
    client = model.api_client.select_version("v1")
    sent = aiplatform_v1.ModelEvaluation(display_name="test split", metrics={"auRoc": 0.75})

    made = client.import_model_evaluation(parent=model.resource_name, model_evaluation=sent)

    [listed] = model.list_model_evaluations()
    assert listed.resource_name == made.name
    assert dict(model.get_model_evaluation().metrics) == {"auRoc": 0.75}
    with pytest.raises(exceptions.NotFound):
        client.get_model_evaluation(name=f"{made.name}9")


def test_an_unknown_field_is_refused(service, upload):
    model = upload()["model"]
    body = {"modelEvaluation": {"accuracy": 1}}
    answer = service.call("POST", f"/v1/{model}/evaluations:import", body)
    assert answer.status_code == 400
    assert "accuracy" in answer.json()["error"]["message"]
