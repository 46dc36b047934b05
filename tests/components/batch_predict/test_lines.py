"""Ranges of lines, for any number of parts."""

import gzip

import pytest

from components.batch_predict.inputs.lines import cut_lines, read_lines

pytestmark = pytest.mark.fast

LINES = [str(number) * (number % 7 + 1) for number in range(1, 50)]


class Predictor:
    """A model of another program, which takes any instance."""


def rows_of(parts):
    return [row for part in parts for batch in read_lines(part, Predictor()) for row in batch.rows]


def values_of(parts):
    batches = [batch for part in parts for batch in read_lines(part, Predictor())]
    return [value for batch in batches for value in batch.instances]


@pytest.mark.parametrize("num_parts", [1, 2, 3, 10, 49, 400])
@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
def test_each_line_is_in_one_part(tmp_path, num_parts, end):
    path = tmp_path / "rows.jsonl"
    path.write_bytes(("\n".join(LINES) + end).encode())

    parts = cut_lines(str(path), num_parts)

    assert rows_of(parts) == list(range(1, 50))
    assert values_of(parts) == list(map(int, LINES))
    assert len(parts) == min(num_parts, 49) or num_parts > 10


def test_a_gzipped_file_is_one_part(tmp_path):
    path = tmp_path / "rows.jsonl.gz"
    path.write_bytes(gzip.compress("\n".join(LINES).encode()))

    parts = cut_lines(str(path), 8)

    assert len(parts) == 1
    assert values_of(parts) == list(map(int, LINES))
