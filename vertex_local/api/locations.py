"""Locations of a project: all exist; a list has those of Vertex AI."""

from vertex_local import Json
from vertex_local.api.routes import Call, Route
from vertex_local.api.service import Service

# `SUPPORTED_REGIONS` of google-cloud-aiplatform.
REGIONS = (
    "africa-south1 asia-east1 asia-east2 asia-northeast1 asia-northeast2 asia-northeast3 "
    "asia-south1 asia-south2 asia-southeast1 asia-southeast2 australia-southeast1 "
    "australia-southeast2 europe-central2 europe-north1 europe-north2 europe-southwest1 "
    "europe-west1 europe-west12 europe-west2 europe-west3 europe-west4 europe-west6 "
    "europe-west8 europe-west9 global me-central1 me-central2 me-west1 northamerica-northeast1 "
    "northamerica-northeast2 southamerica-east1 southamerica-west1 us-central1 us-east1 "
    "us-east4 us-east5 us-east7 us-south1 us-west1 us-west2 us-west3 us-west4 us-west8 "
)


def read(service: Service, call: Call) -> Json:
    """GET projects/P/locations/L, or projects/P/locations: return a location, or all."""
    parent = f"projects/{call.args['project']}/locations"
    names = [call.args["location"]] if "location" in call.args else REGIONS.split()
    locations = [{"name": f"{parent}/{name}", "locationId": name} for name in names]
    return locations[0] if "location" in call.args else {"locations": locations}


ROUTES = [
    Route("GET", f"{base}projects/<project>/locations{path}", read)
    for base in ("", "/ui/")
    for path in ("", "/<location>")
]
