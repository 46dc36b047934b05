"""Preparations in the process of the test."""

import datetime
import itertools
import json
from collections.abc import Callable

import pytest

from components.prepare_examples.beam.options import run_pipeline
from components.prepare_examples.existing_records import step as records
from components.prepare_examples.images import step as images
from components.prepare_examples.prepare import prepare
from components.prepare_examples.settings.options import PrepareOptions
from components.prepare_examples.tables import step as tables
from components.prepare_examples.tables.reading import bigquery
from tests.support.data.csv_tables import write_table
from tests.support.data.prepared import Prepared
from trainer.workloads.data_sets import TAXI


@pytest.fixture
def without_beam(monkeypatch) -> None:
    """Let the process of the test do the work, without Beam, unless Beam's options are given."""

    def work_here(elements, work, finish, *, flags, **options):
        if flags:
            return run_pipeline(elements, work, finish, flags=flags, **options)
        return json.loads(json.dumps(finish([work(element) for element in elements])))

    for step in (tables, records, images):
        monkeypatch.setattr(step, "run_pipeline", work_here)


@pytest.fixture
def run(tmp_path, without_beam) -> Callable[..., Prepared]:
    """Prepare rows, or files, of a workload that a text declares or that is built in."""

    def do(workload: str, *inputs, data_dir=tmp_path, imports: str = "", **options) -> Prepared:
        if "(" in workload:
            workload, text = str(tmp_path / "own"), workload
            (tmp_path / "own").mkdir(exist_ok=True)
            source = f"from trainer.workloads import *\n{imports}\nworkload = {text}\n"
            (tmp_path / "own/workload.py").write_text(source)
        rows = tmp_path / "rows.csv"
        files = tuple(
            write_table(rows, one) if isinstance(one, list) else str(one) for one in inputs
        )
        chosen = PrepareOptions(**{"files": files, "num_shards": {"train": 1}, **options})
        folder = tmp_path / f"out-{next(numbers)}"
        manifest = prepare(workload, output_dir=folder, data_dir=data_dir, options=chosen)
        return Prepared(folder, manifest)

    numbers = itertools.count()
    return do


class BigQuery:
    """Fake client that returns the same batches for every query."""

    def __init__(self, batches, error):
        self.batches, self.error, self.queries = batches, error, []
        self.modified = datetime.datetime(2026, 1, 31, tzinfo=datetime.UTC)

    def get_table(self, name):
        assert name == TAXI.bigquery.table
        return self

    def query(self, text):
        self.queries.append(text)
        return self

    def result(self):
        if self.error:
            raise self.error
        return self

    def to_arrow_iterable(self):
        return iter(self.batches)


@pytest.fixture
def big_query(monkeypatch) -> Callable[..., BigQuery]:
    """Answer BigQuery's queries with batches, or an error."""

    def connect_to(*batches, error=None) -> BigQuery:
        client = BigQuery(batches, error)
        monkeypatch.setattr(bigquery, "connect", lambda project: client)
        return client

    return connect_to
