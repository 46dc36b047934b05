"""JSON lines as instances."""

import gzip
import json
from types import SimpleNamespace

import numpy as np
import pytest

from components.prepare_examples.errors import DataError
from pipelines.predictions.inputs.lines import read_lines
from pipelines.predictions.predict import check_errors
from trainer.errors import InstanceError

pytestmark = pytest.mark.fast

LINES = [str(number) * (number % 7 + 1) for number in range(1, 50)]


class Predictor:
    """A model of another program, which takes any instance."""


@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
@pytest.mark.parametrize(
    "pack", [bytes, gzip.compress, lambda text: text.decode().encode("utf-16")]
)
def test_each_line_is_read(tmp_path, pack, end):
    path = tmp_path / "rows.jsonl"
    path.write_bytes(pack(("\n".join(LINES) + end).encode()))
    batches = list(read_lines({"path": str(path)}, Predictor()))
    assert [row for batch in batches for row in batch.rows] == list(range(1, 50))
    values = [value for batch in batches for value in batch.instances]
    assert values == list(map(int, LINES))


def test_a_line_in_another_encoding_is_named(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_bytes('"Köln"\n'.encode() * 40 + '"Köln"\n'.encode("latin-1"))
    [batch] = read_lines({"path": str(path)}, Predictor())
    assert batch.errors == [{"row": 41, "reason": "it is not UTF-8"}]
    errors = [{"file": str(path), **error} for error in batch.errors]
    shard = SimpleNamespace(num_errors=1, num_rows=40, first_errors=errors)
    with pytest.raises(
        DataError, match=r"it is not UTF-8; row 41 is in another encoding than the rest: 1 of 41"
    ):
        check_errors([shard], max_errors=0)


class Numbers:
    """A workload of one number, {"x": 0 to 199}; counts the instances that are parsed alone."""

    def __init__(self):
        self.alone = 0

    def parse_instance(self, instance):
        self.alone += 1
        if not 0 <= instance["x"] < 200:
            raise ValueError(f"x is {instance['x']}")
        return {"x": np.asarray(instance["x"], np.float32)}

    def parse_instances(self, instances):
        values = [instance["x"] for instance in instances]
        if not all(0 <= value < 200 for value in values):
            raise InstanceError("one is bad")
        return {"x": np.asarray(values, np.float32)}


@pytest.mark.parametrize(
    "bad", [{}, {70: {"x": 500}}, {0: "{", 199: {"x": -1}}, {key: {"x": 200} for key in range(200)}]
)
def test_lines_are_parsed_alone_only_beside_a_bad_one(tmp_path, bad):
    path = tmp_path / "rows.jsonl"
    content = [bad.get(number, {"x": number, "key": f"k:{number}"}) for number in range(200)]
    lines = [one if isinstance(one, str) else json.dumps(one) for one in content]
    path.write_text("\n".join(lines))
    predictor = SimpleNamespace(workload=Numbers())

    [batch] = read_lines({"path": str(path)}, predictor)

    good = [number for number in range(200) if number not in bad]
    assert batch.rows == [number + 1 for number in good]
    assert batch.keys == [f"k:{number}" for number in good]
    assert (batch.features or {"x": np.zeros(0)})["x"].tolist() == good
    assert [error["row"] for error in batch.errors] == [number + 1 for number in sorted(bad)]
    assert bool(predictor.workload.alone) == bool(bad)


@pytest.mark.parametrize("text", ['{"x": 1, "x": 2}', '{"x": NaN}', '{"x": "\\ud800"}', "\xff"])
def test_a_line_is_strict_json(tmp_path, text):
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'{"y": "12:30"}\n' + text.encode("latin-1") + b"\n[3]")

    [batch] = read_lines({"path": str(path)}, Predictor())

    assert batch.instances == [{"y": "12:30"}, [3]]
    assert [error["row"] for error in batch.errors] == [2]
