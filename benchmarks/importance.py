"""Importance of a table's columns by permutation, against one evaluation of the same test split.

Ours is the importance as `evaluate` measures it: of a sample of the rows, predicted once as they
are and once for each column shuffled. Theirs reads and predicts all rows once, as every evaluation
does. Both use the default model of a table, untrained, in the same process; they alternate.

    python -m benchmarks.importance --rows 100000 --columns 20 --sample 100000
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from benchmarks.support.clusters import scratch
from benchmarks.support.records import write_records
from benchmarks.support.report import report
from components.evaluate import importance
from components.evaluate.held_out import read_held_out
from components.prepare_examples.tfrecords.table_encoder import encode_rows
from trainer.runtime.tensorflow_logs import import_tensorflow
from trainer.workloads import Binary, Category, Number, Table

if TYPE_CHECKING:
    from trainer.serving.export import Predictor

LABEL, COMPANY = "label", "company"
NUM_COMPANIES = 50
NUM_ADAPTED = 5_000  # rows from which the encoding is learnt


def main() -> None:
    """Print the seconds of both as one comparison."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=100_000, help="default: %(default)s")
    parser.add_argument("--columns", type=int, default=20, help="default: %(default)s")
    parser.add_argument(
        "--sample", type=int, help="rows to measure importance on; default: as an evaluation does"
    )
    parser.add_argument("--rounds", type=int, default=3, help="default: %(default)s")
    arguments = parser.parse_args()
    import_tensorflow()
    if arguments.sample:
        importance.MAX_ROWS = arguments.sample
        importance.MAX_PREDICTIONS = arguments.sample * arguments.columns
    with scratch() as folder:
        examples = folder / "table"
        predictor = make_case(examples, make_rows(arguments.rows, arguments.columns))
        compare(str(examples), predictor, arguments.rounds)


def compare(examples: str, predictor: "Predictor", rounds: int) -> None:
    """Print the comparison; the first round is left out, which traces the graphs."""
    ours, theirs = [], []
    for _ in range(1 + rounds):
        theirs.append(clock(lambda: read_held_out(examples, predictor)))
        ours.append(
            clock(
                lambda: importance.measure_importance(
                    examples, predictor, metric="auc", confidence=0.95
                )
            )
        )
    report("importance", ours=ours[1:], theirs=theirs[1:], unit="s", lower_is_better=True)


def make_case(folder: Path, rows: dict[str, pa.Array]) -> "Predictor":
    """Write the rows as a test split, and return an untrained model that is adapted to them."""
    from trainer.serving.export import export_model, load_predictor

    folder.mkdir()
    records = encode_rows(rows).to_pylist()
    write_records(folder, {"test": records})
    columns = [
        Category(name) if name == COMPANY else Number(name) for name in rows if name != LABEL
    ]
    workload: Any = Table(columns, label=Binary(LABEL)).with_name(folder.name, "")
    features, _ = workload.parse(records[:NUM_ADAPTED])
    adapted = workload.adapt({name: column.numpy() for name, column in features.items()})
    export_model(adapted.build_model(), adapted, str(folder / "model"))
    return load_predictor(str(folder / "model"))


def make_rows(num_rows: int, num_columns: int) -> dict[str, pa.Array]:
    """Return columns of numbers and one of a category, and a label that depends on a number."""
    random = np.random.default_rng(1)
    numbers = random.normal(size=(num_columns - 1, num_rows)).astype(np.float32)
    companies = np.array([f"company {number}" for number in range(NUM_COMPANIES)])
    return {
        **{f"number_{place}": pa.array(values) for place, values in enumerate(numbers)},
        COMPANY: pa.array(companies[random.integers(NUM_COMPANIES, size=num_rows)]),
        LABEL: pa.array((numbers[0] > random.normal(size=num_rows)).astype(np.int64)),
    }


def clock(work: Callable[[], Any]) -> float:
    """Return the seconds that some work takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
