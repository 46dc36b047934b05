"""Files that users name: pipes, devices, folders and large ones must not make a command wait."""

import json
import os
import threading
from pathlib import Path

import pytest

from components.prepare_examples.errors import DataError
from components.shared.text.user_file import FileError, read_file, read_text_file
from components.shared.text.yaml_text import YamlError, read_yaml_file
from pipelines.package.spec import read_package_file
from pipelines.projects.requirements import read_requirements
from pipelines.projects.scripts.script_text import read_script
from pipelines.serving import instances

pytestmark = [pytest.mark.fast, pytest.mark.timeout(60)]


@pytest.fixture(params=["pipe", "device", "folder", "large"])
def unreadable(request, tmp_path) -> Path:
    """A path whose reading would not end, would not fit, or is impossible."""
    path = tmp_path / "named.py"
    match request.param:
        case "pipe":
            os.mkfifo(path)
        case "device":
            path.symlink_to("/dev/zero")
        case "folder":
            path.mkdir()
        case "large":
            with path.open("wb") as file:
                file.truncate(1 << 40)  # has no blocks
    return path


READERS = {
    "yaml": read_yaml_file,
    "package": read_package_file,
    "requirements": lambda path: list(read_requirements(path)),
    "script": read_script,
    "instances": instances.read_document,
    "lines": instances.read_lines,
}


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
def test_what_is_no_small_regular_file_is_refused(unreadable, read):
    with pytest.raises((ValueError, OSError, DataError)) as caught:
        read(unreadable)
    assert any(
        words in str(caught.value).lower()
        for words in ("no regular file", "bytes; at most", "is a directory")
    )


@pytest.mark.linux("files of which stat(2) tells no size, such as /proc/self/status")
def test_a_file_that_grows_or_tells_no_size_is_read_up_to_the_limit():
    assert read_file(Path("/proc/self/status"), max_bytes=100_000).startswith(b"Name:")
    with pytest.raises(FileError, match="over 5 bytes"):
        read_file(Path("/proc/self/status"), max_bytes=5)


def test_text_has_no_byte_order_mark_and_is_utf8(tmp_path):
    path = tmp_path / "text"
    path.write_bytes(b"\xef\xbb\xbfa")
    assert read_text_file(path) == "a"
    path.write_bytes(b"a\xff")
    with pytest.raises(FileError, match="byte 1 is not UTF-8"):
        read_text_file(path)
    with pytest.raises(YamlError, match="byte 1 is not UTF-8"):
        read_yaml_file(path)


def test_instances_come_from_a_process_substitution_of_the_shell():
    reader, writer = os.pipe()
    try:
        feed = threading.Thread(target=_write_and_close, args=(writer,))
        feed.start()
        found = instances.read_lines(Path(f"/dev/fd/{reader}"))
        feed.join()
    finally:
        os.close(reader)
    assert [one.value for one in found] == [{"a": 1}]


def _write_and_close(descriptor: int) -> None:
    with os.fdopen(descriptor, "wb") as file:
        file.write(json.dumps({"a": 1}).encode() + b"\n")
