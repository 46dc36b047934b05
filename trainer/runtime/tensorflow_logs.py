"""Import of TensorFlow, without its noise in the replica's log."""

import contextlib
import gc
import itertools
import linecache
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from types import ModuleType
from typing import Any

# TensorFlow 2.21 writes these before its logging starts, regardless of TF_CPP_MIN_LOG_LEVEL.
_NOISE = re.compile(
    r"WARNING: All log messages before absl"
    r"|[IW]\d{4} [\d:.]+ +\d+ "
    r"|E\d{4} .*(cuda|cuInit|CUDA)"
    r"|To enable the following instructions"
)


@contextlib.contextmanager
def quiet_native_logs() -> Iterator[None]:
    """Hold back what native code writes to stderr; at the end write all but known noise."""
    sys.stderr.flush()
    real_stderr = os.dup(2)
    with tempfile.TemporaryFile() as held:
        os.dup2(held.fileno(), 2)
        try:
            yield
        finally:
            sys.stderr.flush()
            os.dup2(real_stderr, 2)
            os.close(real_stderr)
            held.seek(0)
            for line in held.read().decode(errors="replace").splitlines():
                if line.strip() and not _NOISE.match(line):
                    sys.stderr.write(line + "\n")


@contextlib.contextmanager
def without_collection() -> Iterator[None]:
    """Collect no garbage here, nor in processes forked meanwhile until they enable it."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def import_tensorflow() -> None:
    """Import TensorFlow and find its devices, without messages about missing GPUs."""
    # Without it the first replica on a machine takes all the memory of its GPUs.
    os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")
    # Hardly an object of an import is garbage, but looking for some takes a tenth of its time.
    with quiet_native_logs(), without_collection():
        import tensorflow as tf
        from tensorflow.python.autograph.pyct import loader

        tf.config.list_physical_devices()
    gc.freeze()  # what was imported is never garbage, and the next collection would look at it all
    _generate_code_in_memory(loader)


def _generate_code_in_memory(loader: Any) -> None:
    """Make AutoGraph load generated code from memory instead of from temporary files.

    It writes a file for each function and deletes it when the interpreter exits, which a killed
    replica never does.
    """
    numbers = itertools.count()

    def load_source(source: str, delete_on_exit: bool) -> tuple[ModuleType, str]:
        module = ModuleType(f"autograph_{next(numbers)}")
        path = module.__file__ = f"<{module.__name__}>"
        linecache.cache[path] = (len(source), None, source.splitlines(keepends=True), path)
        sys.modules[module.__name__] = module
        exec(compile(source, path, "exec"), module.__dict__)
        return module, path

    if loader.load_source.__module__ != __name__:
        loader.load_source = load_source


def hide_destructor_errors() -> None:
    """Hide the tracebacks of TensorFlow executors that are destroyed after their server was lost.

    Python prints errors of destructors to stderr. The lost replica is logged elsewhere.
    """
    import tensorflow as tf

    show = sys.unraisablehook

    def show_others(unraisable: "sys.UnraisableHookArgs") -> None:
        if not isinstance(unraisable.exc_value, tf.errors.UnavailableError):
            show(unraisable)

    sys.unraisablehook = show_others
