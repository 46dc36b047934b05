"""`vertex-local serve` whose long-running operations are never done at once, as Google's."""

import sys
import threading
import time

from vertex_local import cli
from vertex_local.api import operations

OPERATION_SECONDS = 0.3


def _start(service, resource, method, work, **options):
    def work_slowly(cancelled):
        time.sleep(OPERATION_SECONDS)
        return work(cancelled)

    return ORIGINAL_START(service, resource, method, work_slowly, **options)


def _finished(service, resource, method, response, *, response_type):
    operation = operations._new(service, resource, method, {"done": False})
    outcome = {"response": operations._response(response, response_type)}
    finish = threading.Timer(
        OPERATION_SECONDS, operations._finish, (service, operation["name"], outcome)
    )
    finish.start()
    return operation


ORIGINAL_START = operations.start

if __name__ == "__main__":
    operations.SHORT_SECONDS = 0
    operations.start, operations.finished = _start, _finished
    sys.exit(cli.main())
