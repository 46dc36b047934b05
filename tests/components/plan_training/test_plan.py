"""Plan of a training job: worker pools, scheduling and the trainer's flags."""

import json

import pytest

from components.plan_training.plan import plan_training, trainer_args, worker_pools
from components.plan_training.shape import ClusterSpec
from trainer.config.model_settings import split_model_flags

pytestmark = pytest.mark.fast

CONTAINER = {"image_uri": "image:1"}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        pytest.param(
            {"strategy": "mirrored", "workers": 1}, "workers is 1.*'mirrored'", id="mirrored"
        ),
        pytest.param(
            {"strategy": "multi_worker_mirrored"}, "workers is 0.*set it to 1", id="no-worker"
        ),
        pytest.param(
            {"strategy": "multi_worker_mirrored", "workers": 1, "parameter_servers": 1},
            "parameter_servers is 1.*has no ps.*set it to 0",
            id="workers-with-ps",
        ),
        pytest.param({"workers": 2.0}, "workers is 2.0", id="mangled-by-kfp"),
        pytest.param({"machine": ""}, "machine is ''", id="no-machine"),
    ],
)
def test_a_shape_that_cannot_train_is_refused(values, message):
    with pytest.raises(ValueError, match=message):
        ClusterSpec(**values)


def test_an_unknown_key_names_the_allowed_ones():
    with pytest.raises(ValueError, match=r"cluster has no 'worker'; did you mean 'workers'"):
        ClusterSpec(worker=2)


@pytest.mark.parametrize(
    ("values", "counts"),
    [
        ({}, [1, 0, 0, 1]),
        ({"strategy": "multi_worker_mirrored", "workers": 2}, [1, 2, 0, 1]),
        ({"strategy": "parameter_server", "workers": 2, "parameter_servers": 1}, [1, 2, 1, 1]),
    ],
    ids=["single", "multi-worker", "parameter-server"],
)
def test_an_evaluator_stays_the_fourth_pool_through_googles_launcher(values, counts):
    """Run GCPC's own launcher, which drops empty values, and the SDK's client."""
    from google.cloud import aiplatform_v1
    from google_cloud_pipeline_components.container.v1.gcp_launcher.utils import json_util

    pools = worker_pools(ClusterSpec(evaluators=1, **values), container=CONTAINER)
    job = {"display_name": "j", "job_spec": {"worker_pool_specs": pools}}
    sent = aiplatform_v1.CustomJob(json_util.recursive_remove_empty(job))

    specs = list(sent.job_spec.worker_pool_specs)
    assert [spec.replica_count for spec in specs] == counts
    empty = aiplatform_v1.WorkerPoolSpec()
    assert all(spec == empty for spec in specs if not spec.replica_count)


def test_settings_become_flags_of_the_trainer():
    flags = {"batch_size": 128, "fresh": True, "resume": False, "steps": None}

    assert trainer_args(flags) == ["--batch-size=128", "--fresh"]


def test_settings_of_the_model_keep_their_names_and_values():
    flags = {"model.max_depth": 3, "model.is_wide": False, "model.layers": [6, 4]}
    expected = ["--model.max_depth=3", "--model.is_wide=false", "--model.layers=6,4"]
    assert trainer_args(flags) == expected
    assert split_model_flags(expected) == (
        [],
        {"model.max_depth": "3", "model.is_wide": "false", "model.layers": "6,4"},
    )


def planned(train=None, **cluster):
    return plan_training(
        "mnist", cluster=ClusterSpec(**cluster), train=train or {}, image="i", examples_uri="/e"
    )


@pytest.mark.parametrize("strategy", ["single", "parameter_server"])
def test_spot_sets_scheduling_restarts_and_checkpoints_together(strategy):
    counts = {} if strategy == "single" else {"workers": 1, "parameter_servers": 1}
    plan = planned(spot=True, strategy=strategy, **counts)

    assert plan.scheduling_strategy == "SPOT"
    assert plan.restarts_whole_job
    args = plan.worker_pool_specs[0]["container_spec"]["args"]
    assert "--checkpoint-every-seconds=60" in args
    assert planned().scheduling_strategy == "STANDARD"


@pytest.mark.parametrize("flag", ["checkpoint_every_steps", "checkpoint_every_seconds"])
def test_the_runs_checkpoint_interval_wins_on_spot(flag):
    plan = planned({flag: 7}, spot=True)
    args = plan.worker_pool_specs[0]["container_spec"]["args"]

    assert json.dumps({flag: 7}) in plan.explanation
    assert [arg for arg in args if "checkpoint" in arg] == [f"--{flag.replace('_', '-')}=7"]


def test_restarts_override_the_default_of_spot():
    assert not planned(spot=True, restarts="replica").restarts_whole_job
    assert planned(restarts="whole_job").restarts_whole_job


def test_gpus_and_machines_reach_their_pools_through_the_launcher():
    from google.cloud import aiplatform_v1

    plan = planned(
        strategy="parameter_server",
        workers=1,
        parameter_servers=1,
        accelerator={"type": "NVIDIA_TESLA_T4", "count": 2},
        machines={"parameter_servers": "n1-highmem-8"},
    )
    sent = aiplatform_v1.CustomJobSpec({"worker_pool_specs": plan.worker_pool_specs})

    machines = [spec.machine_spec for spec in sent.worker_pool_specs]
    assert [machine.machine_type for machine in machines] == [
        "n1-standard-4",
        "n1-standard-4",
        "n1-highmem-8",
    ]
    assert [machine.accelerator_count for machine in machines] == [0, 2, 0]
    assert machines[1].accelerator_type.name == "NVIDIA_TESLA_T4"


def test_one_machine_with_several_gpus_uses_the_available_ones():
    gpus = {"type": "NVIDIA_TESLA_T4", "count": 2}
    args = planned(strategy="mirrored", accelerator=gpus).worker_pool_specs[0]["container_spec"]

    assert "--strategy=auto" in args["args"]
    bare = planned(strategy="mirrored").worker_pool_specs[0]["container_spec"]
    assert "--strategy=mirrored" in bare["args"]


def test_the_clusters_image_wins_over_the_runs():
    plan = planned(image="mine:1")

    assert plan.worker_pool_specs[0]["container_spec"]["image_uri"] == "mine:1"


def test_only_restarts_never_disables_retries():
    assert planned(restarts="never").disables_retries
    assert not planned(spot=True).disables_retries
