"""Files for TensorBoard: scalars and histograms."""

from collections import defaultdict

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from tests.trainer.support.jobs import train


@pytest.fixture(scope="module")
def logs(examples_dir, tmp_path_factory):
    """The logs of two epochs of 16 steps."""
    out = tmp_path_factory.mktemp("seen")
    settings = {"epochs": 2, "histograms": True, "steps_per_call": 4}
    train(examples_dir, out, **settings)
    return out / "logs"


@pytest.fixture(scope="module")
def events(logs):
    everything = {"histograms": 0, "tensors": 0}
    accumulator = EventAccumulator(str(logs / "train"), size_guidance=everything)
    return accumulator.Reload()


def test_each_epoch_has_histograms_of_the_weights_of_each_layer(events):
    found = defaultdict(list)
    for tag in events.Tags()["tensors"]:
        if events.SummaryMetadata(tag).plugin_data.plugin_name == "histograms":
            found[tag] = [event.step for event in events.Tensors(tag)]
    assert len(found) == 8
    assert sum(tag.endswith("/kernel") for tag in found) == 4
    assert all("conv2d" in tag or "dense" in tag for tag in found)
    assert all(steps == [16, 32] for steps in found.values()), found
