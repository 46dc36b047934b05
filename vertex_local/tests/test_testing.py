"""Services for tests of others."""

from vertex_local import testing
from vertex_local.server import DEFAULT_PORT
from vertex_local.testing import running

vertex_service = testing.vertex_service


def test_a_service_of_a_test_is_new_and_can_be_emptied(vertex_service):
    vertex_service.do("POST", "endpoints", {"displayName": "e"})
    url = vertex_service.url

    vertex_service.reset()

    assert vertex_service.url == url
    assert vertex_service.do("GET", "endpoints") == {"endpoints": []}


def test_the_folder_of_a_service_is_removed():
    with running() as service:
        assert service.call("GET", "models").ok
        assert service.sdk_options["api_endpoint"] == service.url
    assert not service.root.exists()


def test_services_of_tests_leave_the_default_port_to_others(vertex_service):
    assert vertex_service.url != f"http://127.0.0.1:{DEFAULT_PORT}"
