"""The console: one page that shows what the service holds."""

from werkzeug.wrappers import Response

from vertex_local.service import Service


def page(service: Service) -> Response:
    """The page, rendered from the store."""
    return Response(
        f"<!doctype html><title>vertex-local</title>{service.url}", mimetype="text/html"
    )
