"""Model evaluations: metrics of a model version, imported by pipelines."""

from vertex_local import Json
from vertex_local.api import protos
from vertex_local.api.pages import list_page
from vertex_local.api.routes import Call, routes_of
from vertex_local.api.service import Service
from vertex_local.machine.clock import now
from vertex_local.models import resource as models

KIND = "evaluations"


def import_evaluation(service: Service, call: Call) -> Json:
    """POST models/M@V/evaluations:import; without a version, it is of the default one."""
    version = _version_name(service, call)
    request = protos.parse("ImportModelEvaluationRequest", {**call.body, "parent": version})
    name = f"{version}/{KIND}/{service.store.next_id()}"
    evaluation = {"name": name, **request["modelEvaluation"], "createTime": now()}
    service.store.insert(name, evaluation)
    return evaluation


def get(service: Service, call: Call) -> Json:
    """GET models/M@V/evaluations/E."""
    return service.store.get(f"{_version_name(service, call)}/{KIND}/{call.args['evaluation']}")


def list_evaluations(service: Service, call: Call) -> Json:
    """GET models/M@V/evaluations."""
    page = list_page(service, call, KIND, parent=_version_name(service, call))
    return {"modelEvaluations": page.pop(KIND), **page}


def _version_name(service: Service, call: Call) -> str:
    model = models.resolve(service, call.name("models"))
    return f"{model['name']}@{model['versionId']}"


ROUTES = routes_of(
    "models/<id>/evaluations",
    {
        "POST :import": import_evaluation,
        "GET": list_evaluations,
        "GET /<evaluation>": get,
    },
)
