"""A time without garbage collection."""

import gc

import pytest

from trainer.runtime.garbage_collection import without_collection

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
