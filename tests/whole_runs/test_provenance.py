"""Versions made again, and followed from their data, by the commands that users type."""

import json

from tests.support.processes.whole_runs import ended

ANY = ("--set", "thresholds.accuracy=0")


def test_a_version_is_made_again_bit_by_bit_and_what_changed_is_named(home):
    code, output = home.run(*ANY)
    assert code == 0, output
    before = home.resources("models"), home.resources("pipelineJobs")

    output = home.call("reproduce", "mnist@1")

    assert "mnist@1: the same bits" in output
    assert (home.resources("models"), home.resources("pipelineJobs")) == before
    assert not [*(home.state / "reproduced").iterdir()]
    home.assert_nothing_is_left()

    facts = json.loads(home.call("lineage", "mnist@1", "--json"))
    raw, *_ = facts["data"]["files"]
    assert "mnist@1" in home.call("lineage", raw[0])
    assert "| accuracy |" in home.call("models", "card", "mnist@1")

    other = home.start(
        "reproduce", "mnist@1", "--json", TF_ENABLE_ONEDNN_OPTS="1", OMP_NUM_THREADS="1"
    )
    code, output = ended(other)
    found = json.loads(output[output.index("{") :])
    assert code == (0 if found["result"] == "the same bits" else 3)
    assert code == 0 or "variables " in found["reasons"][0]

    data = home.folder / "data/mnist"
    folder = data.resolve()
    data.unlink()
    data.mkdir()
    for path in folder.iterdir():
        (data / path.name).write_bytes(path.read_bytes())
    images = data / "train-images-idx3-ubyte"
    content = bytearray(images.read_bytes())
    content[-1] ^= 1
    images.write_bytes(content)
    code, output = ended(home.start("reproduce", "mnist@1"))
    assert code == 3, output
    assert "✗ raw files" in output
    assert f"{images}: [" in output
