import pytest

from vertex_local.jobs import replica_env
from vertex_local.jobs.record import plan_job
from vertex_local.jobs.replica_env import process_specs
from vertex_local.machine.system import num_cores
from vertex_local.tests.support.jobs import job, pool

pytestmark = pytest.mark.fast

ASYNCHRONOUS = ["chief/0", "worker/0", "worker/1", "worker/2", "ps/0"]
SYNCHRONOUS = ["chief/0", "worker/0"]


def test_a_chief_with_parameter_servers_does_not_compute():
    assert replica_env.computing(ASYNCHRONOUS) == ["worker/0", "worker/1", "worker/2"]
    assert replica_env.computing(SYNCHRONOUS) == SYNCHRONOUS


@pytest.mark.parametrize(
    ("num_computing", "num_cores", "threads"), [(1, 2, None), (2, 2, "1"), (4, 2, "1"), (2, 8, "4")]
)
def test_replicas_share_the_cores(num_computing, num_cores, threads):
    variables = replica_env.thread_variables(num_computing, num_cores=num_cores)

    assert variables.get(replica_env.THREADS_VARIABLE) == threads


def test_threads_set_for_the_service_are_not_overridden(monkeypatch):
    monkeypatch.setenv(replica_env.THREADS_VARIABLE, "3")
    assert replica_env.thread_variables(4, num_cores=2) == {}


def test_a_job_may_set_its_threads(tmp_path):
    own = [{"name": replica_env.THREADS_VARIABLE, "value": "7"}]
    plan = plan_job(job(pool("", env=own), pool("", 3)))
    specs = process_specs(plan, folder=tmp_path, ports=[1, 2, 3, 4], common_env={})

    expected = str(max(1, num_cores() // 4))
    assert [spec.env[replica_env.THREADS_VARIABLE] for spec in specs] == ["7", *[expected] * 3]
