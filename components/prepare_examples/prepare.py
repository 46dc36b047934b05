"""The step itself: fetch, check, plan, write, publish."""

import contextlib
import json
import logging
import os
import re
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from components.prepare_examples.errors import DataError
from components.prepare_examples.fetch import fetch
from components.prepare_examples.files import sha256_of
from components.prepare_examples.shards import SPLITS, Rows, limit_splits, plan_shards
from components.prepare_examples.workloads import WORKLOADS
from components.prepare_examples.writer import MANIFEST, write_examples

CACHE_DIR = ".trainyard/cache"
CLOUD_MOUNT = "/gcs/"
OWN_FILE = re.compile(rf"({'|'.join(SPLITS)})-\d{{5}}-of-\d{{5}}\.tfrecord\.gz")

Json = dict[str, Any]

logger = logging.getLogger(__name__)


def prepare(
    workload: str,
    *,
    output_dir: str | Path,
    data_dir: str | Path = "",
    max_examples: int = 0,
    trust_files: bool = False,
    num_shards: Mapping[str, int] | None = None,
    beam_options: Sequence[str] = (),
) -> Json:
    """Turns a workload's raw files into a folder of TFRecords; answers its manifest.

    The same input gives the same bytes. `output_dir` appears whole or not at all.

    Args:
        workload: `mnist` or `cifar10`.
        output_dir: the folder to make; an earlier dataset in it is replaced, nothing else is.
        data_dir: the raw files' cache, local or gs://; `.trainyard/cache/WORKLOAD` if empty.
        max_examples: for a small run, take only the first examples of each split, this many in
            all, in proportion to the splits; 0 takes all.
        trust_files: take the files in `data_dir` unverified and fetch nothing (see `fetch`); the
            manifest says so.
        num_shards: files for each split, by name; what is not named has the default.
        beam_options: Beam's own flags, without `--runner` it all runs in this process. Another
            runner's workers must see `data_dir` and `output_dir`.

    Raises:
        DataError: the data, or what was asked of it, is wrong.
    """
    started = time.monotonic()
    raw = local_path(data_dir or Path(CACHE_DIR, workload))
    output = local_path(output_dir)
    _check_replaceable(output)
    paths = fetch(workload, raw, trust_files=trust_files)
    splits = limit_splits(WORKLOADS[workload].splits(raw), max_examples)
    shards = plan_shards(splits, num_shards or {})
    header = _header(workload, splits, max_examples, paths, verified=not trust_files)
    with _published(output) as folder:
        write_examples(
            shards,
            workload=workload,
            data_dir=raw,
            output_dir=folder,
            header=header,
            beam_options=beam_options,
        )
    manifest = read_manifest(output)
    logger.info("%s in %.1f s", summary(manifest, output), time.monotonic() - started)
    return manifest


def read_manifest(examples_dir: str | Path) -> Json:
    """The manifest of a prepared dataset."""
    manifest: Json = json.loads(Path(examples_dir, MANIFEST).read_text())
    return manifest


def summary(manifest: Json, output: Path) -> str:
    """One line: examples and shards of each split."""
    parts = [
        f"{name} {split['num_examples']:,} in {len(split['shards'])}"
        for name, split in manifest["splits"].items()
    ]
    return f"{manifest['workload']}: {', '.join(parts)} shards written to {output}"


def describe(manifest: Json) -> dict[str, str]:
    """Metadata for the artifact; all text, because kfp.local turns numbers into floats."""
    counts = {
        f"num_{name}_examples": str(split["num_examples"])
        for name, split in manifest["splits"].items()
    }
    return {"workload": manifest["workload"], "split_rule": manifest["split_rule"], **counts}


def local_path(path: str | Path) -> Path:
    """A path that Python can open: gs://BUCKET is /gcs/BUCKET in every Vertex container.

    Raises:
        DataError: a bucket is named where none is mounted.
    """
    text = str(path)
    if not text.startswith("gs://"):
        return Path(text)
    if not Path(CLOUD_MOUNT).is_dir():
        raise DataError(
            f"{text}: buckets are reached through {CLOUD_MOUNT}, which Vertex AI mounts and this "
            "machine does not have; name a local folder"
        )
    return Path(CLOUD_MOUNT + text.removeprefix("gs://"))


def _header(
    workload: str,
    splits: Mapping[str, Rows],
    max_examples: int,
    paths: Mapping[str, Path],
    *,
    verified: bool,
) -> Json:
    split_rule = WORKLOADS[workload].split_rule
    if max_examples:
        kept = {name: rows.stop - rows.start for name, rows in splits.items()}
        split_rule += f"; limited to the first of each: {json.dumps(kept)}"
    return {
        "workload": workload,
        "compression": "GZIP",
        "split_rule": split_rule,
        "sources": [
            {"file": name, "sha256": sha256_of(path), "verified": verified}
            for name, path in paths.items()
        ],
    }


@contextlib.contextmanager
def _published(output: Path) -> Iterator[Path]:
    """A folder to write in, which takes the name `output` when all is written.

    On a mounted bucket a folder cannot be renamed: there, files go to their place at once and the
    manifest, written last, is the mark of a whole dataset.
    """
    if str(output).startswith(CLOUD_MOUNT):
        output.mkdir(parents=True, exist_ok=True)
        (output / MANIFEST).unlink(missing_ok=True)
        yield output
        return
    staged = output.with_name(f".{output.name}.{os.getpid()}.partial")
    staged.mkdir(parents=True)
    try:
        yield staged
        if output.exists():
            shutil.rmtree(output)
        os.replace(staged, output)
    finally:
        shutil.rmtree(staged, ignore_errors=True)


def _check_replaceable(output: Path) -> None:
    if output.exists() and not output.is_dir():
        raise DataError(f"output_dir {output} is a file; name a folder")
    entries = sorted(entry.name for entry in output.iterdir()) if output.exists() else []
    strangers = [name for name in entries if name != MANIFEST and not OWN_FILE.fullmatch(name)]
    if strangers:
        raise DataError(
            f"output_dir {output} holds {strangers[0]!r}, which is no prepared example: "
            "name a new folder, or empty this one"
        )
