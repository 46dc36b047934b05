"""Times without garbage collection, of all objects or of those that exist."""

import gc

import pytest

from components.prepare_examples.beam.processes import frozen_objects
from trainer.runtime.tensorflow_logs import without_collection

pytestmark = pytest.mark.fast


@without_collection()
def fail():
    assert not gc.isenabled()
    raise KeyError


def test_garbage_is_collected_again_afterwards_also_after_an_error():
    with pytest.raises(KeyError):
        fail()
    assert gc.isenabled()


def test_a_time_within_another_does_not_end_it():
    with without_collection():
        with without_collection():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()


@frozen_objects()
def fail_frozen():
    assert gc.get_freeze_count() > 0
    raise KeyError


def test_objects_are_frozen_until_the_end_also_after_an_error():
    gc.unfreeze()
    with pytest.raises(KeyError):
        fail_frozen()
    assert gc.get_freeze_count() == 0
