"""Files for TensorBoard: scalars, histograms, and a trace of steps."""

from collections import defaultdict

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorflow.tsl.profiler.protobuf import xplane_pb2

from tests.trainer.support.jobs import new_job, train
from trainer.errors import ConfigError


@pytest.fixture(scope="module")
def logs(examples_dir, tmp_path_factory):
    """The logs of two epochs of 16 steps."""
    out = tmp_path_factory.mktemp("seen")
    settings = {"epochs": 2, "histograms": True, "profile_steps": "5-20", "steps_per_call": 4}
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


def test_the_trace_covers_the_steps(logs):
    (path,) = logs.glob("plugins/profile/*/*.xplane.pb")
    trace = xplane_pb2.XSpace.FromString(path.read_bytes())
    # The first step of each call of four.
    assert sorted(set(traced_steps(trace))) == [5, 9, 13, 17]
    operations = {event.name for plane in trace.planes for event in plane.event_metadata.values()}
    assert any("Conv2D" in name for name in operations)


def traced_steps(trace):
    for plane in trace.planes:
        steps = {key for key, stat in plane.stat_metadata.items() if stat.name == "step_num"}
        for line in plane.lines:
            for event in line.events:
                if plane.event_metadata[event.metadata_id].name.startswith("train"):
                    yield from (
                        stat.int64_value or stat.uint64_value
                        for stat in event.stats
                        if stat.metadata_id in steps
                    )


def test_steps_to_profile_after_the_last_step_are_refused(examples_dir, tmp_path):
    with pytest.raises(ConfigError, match=r"--profile-steps: 5-33.* 32"):
        new_job(examples_dir, tmp_path, epochs=2, profile_steps="5-33")
