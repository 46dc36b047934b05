"""Ends of workers and parameter servers."""

import threading

from trainer.cluster.liveness import LivenessWatch
from trainer.cluster.servers import announce_end, wait_for_end


def test_a_replica_that_is_stopped_after_the_end_of_its_job_ends_as_the_job(tmp_path):
    class Stop(threading.Event):
        def wait(self, timeout=None):
            announce_end(str(tmp_path), code=0, message="training is done")
            self.set()
            return True

    assert wait_for_end(LivenessWatch({}), str(tmp_path), stop=Stop()) == 0
