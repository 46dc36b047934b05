"""Parameter-server clusters of real processes: a whole run, and the loss of each role."""

import hashlib
import json
import re
import shutil
import signal

import pytest

from components.prepare_examples.tfrecords.records import frame_row, record_file
from tests.support.data.evaluation import evaluate
from tests.support.processes.replicas import free_ports
from tests.trainer.support.jobs import expect_end, last_checkpoint, steps_in
from trainer.errors import EXIT_RESTART
from vertex_local.tests.support.waiting import wait_until

pytestmark = pytest.mark.timeout(300)
# Blocks of ten steps; a step is 32 digits of 792 bytes.
STREAM = ("--cache", "stream", "--cache-gb", 3 * 10.5 * 32 * 792 / 1e9)


def test_a_cluster_trains_exactly_its_steps_and_all_replicas_end(
    start_cluster, flags, examples_dir, tmp_path, expect_own_predictions
):
    replicas = start_cluster(*flags, "--steps", 151)
    expect_end(replicas.values())
    assert "step 151/151" in replicas["chief/0"].log
    for worker in ("worker/0", "worker/1"):
        log = replicas[worker].log
        assert re.search(r"steps \d+ to \d+ of 151 loss \d+\.\d{4} \d+ examples/s", log), log
        assert "the job has ended: training is done" in log
    out = tmp_path / "out"
    lines = (out / "logs/metrics.jsonl").read_text().splitlines()
    assert max(json.loads(line)["step"] for line in lines) == 151
    # The servers counted every update: the step of the last checkpoint is theirs.
    assert (out / "checkpoints/step-0000000151/checkpoint.json").exists()
    expect_own_predictions(out)
    evaluation = evaluate(str(out / "model"), str(examples_dir))
    assert evaluation.metrics["accuracy"] > 0.9


def test_a_checkpoint_of_a_stopped_cluster_resumes_with_other_servers(start_cluster, start, flags):
    steps = ["--steps", 100_000, "--learning-rate", 0.001]
    replicas = start_cluster(*flags, *steps, num_workers=1, num_ps=2)
    replicas["chief/0"].wait_for("step 10/100000")
    replicas["chief/0"].process.send_signal(signal.SIGTERM)
    expect_end(replicas.values(), EXIT_RESTART)
    alone = start("alone", *flags, *steps)
    alone.wait_for("resuming from step ")
    alone.wait_for("/100000 loss")


@pytest.mark.parametrize("victim", ["worker/0", "ps/0"])
def test_a_lost_replica_ends_all_others_and_is_named(start_cluster, flags, victim):
    wait = ["--replace-worker-seconds", 2]
    replicas = start_cluster(*flags, *wait, "--steps", 100_000, num_workers=1)
    replicas["chief/0"].wait_for("step 10/100000")
    expect_end_after_kill(replicas, victim, witness="chief/0")


def expect_end_after_kill(replicas, victim, *, witness):
    """Kill a replica; check that all others end and that one of them names it."""
    replicas.pop(victim).kill()
    expect_end(replicas.values(), EXIT_RESTART)
    log = replicas[witness].log
    assert f"{victim} (127.0.0.1:" in log
    assert "has been unreachable for" in log


@pytest.mark.parametrize(
    "more", [(), pytest.param(STREAM, marks=pytest.mark.long)], ids=["memory", "stream"]
)
def test_a_lost_worker_is_replaced_and_each_update_is_counted_once(
    start_cluster, flags, more, tmp_path
):
    steps = ["--steps", 1_000_000, "--learning-rate", 0.001]
    replicas = start_cluster(*flags, *steps, *more, "--checkpoint-every-steps", 100)
    chief = replicas["chief/0"]
    chief.wait_for("step 10/1000000")
    replicas["worker/0"].kill()
    chief.wait_for("worker/0 is lost; 1 worker continues")
    replicas["worker/0"] = replicas["worker/0"].start_again()
    chief.wait_for("worker/0 is back")
    chief.process.send_signal(signal.SIGTERM)
    expect_end(replicas.values(), EXIT_RESTART)
    # The servers' count: no update is repeated or lost.
    saved = last_checkpoint(tmp_path / "out")
    *rest, (next_step, _) = saved.extra["unfinished"]
    assert saved.step == next_step - sum(count for _, count in rest)


def test_a_file_damaged_during_streaming_is_named(start_cluster, flags, examples_dir, tmp_path):
    folder = shutil.copytree(examples_dir, tmp_path / "examples")
    more = ["--examples-dir", folder, *STREAM, "--steps", 100_000, "--learning-rate", 0.001]
    replicas = start_cluster(*flags, *more, num_workers=1)
    replicas["chief/0"].wait_for("step 10/100000")
    shard = folder / "train-00001-of-00003.tfrecord.gz"
    shard.write_bytes(shard.read_bytes()[:-3000])
    expect_end(replicas.values(), 1)
    assert f"{shard.name} is damaged from record " in replicas["chief/0"].log


def test_a_broken_record_is_named(start_cluster, flags, examples_dir, tmp_path):
    folder = shutil.copytree(examples_dir, tmp_path / "examples")
    shard = folder / "train-00001-of-00003.tfrecord.gz"
    manifest = json.loads((folder / "manifest.json").read_text())
    [entry] = [one for one in manifest["splits"]["train"]["shards"] if one["file"] == shard.name]
    # As many records as before; none of them is an Example, and their bytes are no text.
    with record_file(shard, compression="GZIP") as file:
        file.write(frame_row(b"\xff\xfe\x80" * 20) * entry["num_examples"])
    entry["sha256"] = hashlib.sha256(shard.read_bytes()).hexdigest()
    (folder / "manifest.json").write_text(json.dumps(manifest))

    more = ["--examples-dir", folder, "--cache", "memory", "--steps", 100]
    replicas = start_cluster(*flags, *more, num_workers=1)

    expect_end(replicas.values(), 1)
    assert f"{shard.name}, record 0 (the first is 0): its 60 bytes" in replicas["chief/0"].log


def test_an_error_that_the_chief_finds_before_it_connects_ends_the_others(start, flags):
    names = ["ps", "worker", "chief"]
    addresses = {
        name: [f"127.0.0.1:{port}"] for name, port in zip(names, free_ports(3), strict=True)
    }

    def start_one(name):
        task = {"cluster": addresses, "task": {"type": name, "index": 0}}
        return start(name, *flags, *wrong, TF_CONFIG=json.dumps(task))

    wrong = ["--steps", 10, "--examples-dir", "/no/examples"]
    others = [start_one(name) for name in ("ps", "worker")]
    for replica in others:
        replica.wait_for("serving at ")
    assert start_one("chief").wait() != 0
    expect_end(others, 1)
    for replica in others:
        assert "the job has ended: the chief failed: " in replica.log
        assert "/no/examples" in replica.log


def test_a_lost_chief_ends_all_others_and_the_job_resumes_from_the_last_checkpoint(
    start_cluster, flags, tmp_path
):
    flags += ["--learning-rate", 0.001, "--checkpoint-every-steps", 20]
    replicas = start_cluster(*flags, "--steps", 100_000, num_workers=1)
    out = tmp_path / "out"
    wait_until(lambda: steps_in(out))
    expect_end_after_kill(replicas, "chief/0", witness="worker/0")
    steps = steps_in(out)[-1] + 53
    expect_end(start_cluster(*flags, "--steps", steps, num_workers=1).values())
    saved = last_checkpoint(out)
    assert saved.step == steps
    assert saved.extra == {"unfinished": [[steps, -1]]}
