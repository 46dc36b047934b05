"""Instances in files: reading, requests in batches, predictions."""

import io
import json
from types import SimpleNamespace

import pytest

from components.shared.vertex.errors import VertexError
from pipelines.errors import ResourceError
from pipelines.serving import instances
from pipelines.serving.instances import (
    MAX_REQUEST_BYTES,
    Instance,
    batches,
    predict,
    predictions_table,
    read_document,
    read_lines,
)

pytestmark = pytest.mark.fast


@pytest.fixture
def file(tmp_path):
    def write(data):
        path = tmp_path / "digits.jsonl"
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
        return path

    return write


def values(found):
    return [one.value for one in found]


@pytest.mark.parametrize(
    "data",
    [
        '{"a": 1}\n[2, "é\u2028"]\n3\n',
        '{"a": 1}\r\n[2, "é\u2028"]\r\n3',
        b"\xef\xbb\xbf" + '\n{"a": 1}\n\n   \n[2, "é\u2028"]\n3\n\n'.encode(),
    ],
    ids=["plain", "crlf", "bom-and-blank-lines"],
)
def test_each_line_is_an_instance(file, data):
    assert values(read_lines(file(data))) == [{"a": 1}, [2, "é\u2028"], 3]


def test_dash_is_standard_input(monkeypatch):
    for read, data in ((read_lines, b"1\n[2]\n"), (read_document, b'{"instances": [1, [2]]}')):
        monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(data)))
        assert values(read(instances.Path("-"))) == [1, [2]]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("", "is empty"),
        ("\n \r\n", "is empty"),
        (b"\xef\xbb\xbf", "is empty"),
        ('{"a": 1}\n{"a": \n', r"digits.jsonl, line 2: not JSON: Expecting value"),
        ("1\n\n[\n  2\n]\n", "line 3: not JSON"),
        ("1\n2,\n", "line 2: not JSON: Extra data"),
        ("1\nNaN\n", "line 2: not JSON: NaN is "),
        ("[1e999]\n", "line 1: not JSON: the number 1e999 is too large"),
        (b"1\n\xff\n", "line 2: not JSON: 'utf-8' codec"),
        (b"\xff\xfe1\x00\n\x00", "line 1: not JSON: 'utf-8' codec"),
        ("[" * 100_000, "line 1: not JSON: it is nested too deeply"),
        ('{"instances": [1]}\n', "line 1 .*--instances"),
    ],
    ids=lambda value: repr(value)[:20],
)
def test_invalid_line_is_reported_with_its_number(file, data, message):
    with pytest.raises(ResourceError, match=message):
        read_lines(file(data))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("1\n2\n", "not JSON: Extra data.*--json-instances"),
        ("{}", "list of instances"),
        ("[]", "list of instances"),
        ('{"inputs": [1]}', r'has the key "inputs", .*; write {"instances": \[\.\.\.\]}'),
        ("[NaN]", "NaN is "),
        ('{"instances": [1], "signature_name": "a"}', "signature_name, which .* not send"),
    ],
)
def test_a_document_without_instances_is_refused(file, data, message):
    with pytest.raises(ResourceError, match=message):
        read_document(file(data))


def test_large_file_is_sent_in_batches_that_fit_into_a_request(file):
    texts = [str(number) * 90_000 for number in range(10)] * 4
    found = read_lines(file("\n".join(map(json.dumps, texts))))

    sent = list(batches(found))
    assert [one.value for piece in sent for one in piece] == texts
    sizes = [len(json.dumps({"instances": values(piece)})) for piece in sent]
    assert len(sizes) == 3
    assert max(sizes) < 1_500_000
    assert list(batches([])) == []


def test_too_large_instance_is_refused(file):
    found = read_lines(file("1\n" + json.dumps("x" * MAX_REQUEST_BYTES)))

    with pytest.raises(ResourceError, match=r"line 2: the instance has 1,400,0\d\d bytes"):
        list(batches(found))


class Endpoint:
    """An endpoint that doubles numbers and refuses other instances as the server does."""

    def __init__(self, message="instance {}: it is no number"):
        self.requests, self.message = [], message

    def list_resources(self, path):
        return [{"displayName": "e", "name": "projects/p/locations/l/endpoints/5"}]

    def post(self, path, body, *, timeout_seconds):
        self.requests.append(body["instances"])
        for index, value in enumerate(body["instances"]):
            if not isinstance(value, int):
                raise VertexError(
                    code=400, status="INVALID_ARGUMENT", message=self.message.format(index)
                )
        return {"predictions": [2 * value for value in body["instances"]]}


def instances_of(given, num_bytes):
    return [
        Instance(value=value, position=f"f, line {number}", num_bytes=num_bytes)
        for number, value in enumerate(given, start=1)
    ]


def test_predictions_of_all_batches_are_in_order():
    endpoint = Endpoint()

    assert predict(endpoint, "e", instances_of(range(7), MAX_REQUEST_BYTES // 3)) == [
        0,
        2,
        4,
        6,
        8,
        10,
        12,
    ]
    assert endpoint.requests == [[0, 1, 2], [3, 4, 5], [6]]


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("instance {}: it is no number", "f, line 6: it is no number"),
        ("the model refuses the instances", "f, line 4 to 6: the model refuses the instances"),
    ],
)
def test_a_refused_instance_is_named_by_its_line(message, expected):
    given = instances_of([1, 2, 3, 4, 5, "6"], MAX_REQUEST_BYTES // 3)

    with pytest.raises(VertexError) as error:
        predict(Endpoint(message), "e", given)
    assert error.value.message == expected


def test_predictions_are_a_table_with_a_column_for_each_key():
    classes = [
        {"class": 7, "label": "7", "probabilities": [0.99999999, 1.25e-08]},
        {"class": 0, "label": "0", "probabilities": [0.5, 0.5], "key": {"id": 1}},
    ]

    table = predictions_table(classes)
    assert table.headings == ("CLASS", "LABEL", "PROBABILITIES", "KEY")
    assert table.rows == [("7", "7", "[1, 1.25e-08]", ""), ("0", "0", "[0.5, 0.5]", '{"id": 1}')]
    plain = predictions_table([[1.5, None], "text", True])
    assert (plain.headings, plain.rows) == (
        ("PREDICTION",),
        [("[1.5, null]",), ("text",), ("true",)],
    )
