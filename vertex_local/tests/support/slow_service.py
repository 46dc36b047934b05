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
    """Take back that an operation is done, for a while."""
    done = ORIGINAL_FINISHED(service, resource, method, response, response_type=response_type)

    def finish():
        service.store.update(done["name"], lambda operation: operation.update(done))

    def begin_again(operation):
        operation.update(done=False)
        del operation["response"]

    threading.Timer(OPERATION_SECONDS, finish).start()
    return service.store.update(done["name"], begin_again)


ORIGINAL_START, ORIGINAL_FINISHED = operations.start, operations.finished

if __name__ == "__main__":
    operations.SHORT_SECONDS = 0
    operations.start, operations.finished = _start, _finished
    sys.exit(cli.main())
