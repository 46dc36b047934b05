import pytest

from vertex_local.machine import ports

pytestmark = pytest.mark.fast


def test_replicas_of_concurrent_jobs_have_different_ports(monkeypatch):
    monkeypatch.setattr(ports.random, "randrange", lambda count: 0)
    pool = ports.PortPool()
    taken = [port for _ in range(3) for port in pool.take(3)]
    assert len(set(taken)) == 9
