"""A prepared dataset of made-up taxi trips."""

import json
from pathlib import Path

import numpy as np
import pytest

from tests.support.data.examples import make_example, write_split
from trainer import Json


@pytest.fixture(scope="session")
def trips_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write trips whose tip is big if they are paid by card and have a company."""
    folder = tmp_path_factory.mktemp("trips")
    random = np.random.default_rng(5)
    splits = {name: write_trips(folder, name, 300, random) for name in ("train", "eval", "test")}
    manifest = {"workload": "taxi", "compression": "GZIP", "splits": splits}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder


def write_trips(folder: Path, name: str, count: int, random: np.random.Generator) -> Json:
    """Write a split as one shard; return its entry in the manifest."""
    return write_split(folder, name, (make_trip(random) for _ in range(count)))


def make_trip(random: np.random.Generator) -> bytes:
    """Return a serialized example."""
    is_card, has_company = random.random() < 0.5, random.random() < 0.7
    return make_example(
        {
            "payment_type": "Credit Card" if is_card else "Cash",
            "company": "Café Cabs" if has_company else None,
            "fare": random.gamma(2, 6),
            "trip_start_hour": int(random.integers(24)),
            "big_tipper": int(is_card and has_company),
        }
    )
