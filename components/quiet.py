"""Imports TensorFlow without the lines its libraries print before any setting can stop them."""

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator


def import_tensorflow() -> None:
    """Loads TensorFlow; what it says on stderr is shown only if that fails."""
    if "tensorflow" in sys.modules:
        return
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    with _stderr_kept_for_errors():
        import tensorflow  # noqa: F401


@contextlib.contextmanager
def _stderr_kept_for_errors() -> Iterator[None]:
    """Diverts file descriptor 2, which C++ writes to, and replays it after an exception."""
    sys.stderr.flush()
    kept = os.dup(2)
    with tempfile.TemporaryFile() as diverted:
        os.dup2(diverted.fileno(), 2)
        try:
            yield
        except BaseException:
            diverted.seek(0)
            os.write(kept, diverted.read())
            raise
        finally:
            os.dup2(kept, 2)
            os.close(kept)
