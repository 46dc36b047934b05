"""A time without garbage collection, of all objects or of the existing ones."""

import contextlib
import gc
from collections.abc import Iterator


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


@contextlib.contextmanager
def frozen_objects() -> Iterator[None]:
    """Never collect the objects that exist now, here and in processes forked meanwhile.

    A fork that destroys an object of its parent, such as a TensorFlow function, may crash; and a
    collection in the parent would copy the pages that the forks share.
    """
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
