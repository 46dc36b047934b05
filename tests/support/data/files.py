"""Folders of small files, and damaged files."""

from collections.abc import Mapping
from pathlib import Path


def write_files(folder: Path, files: Mapping[str, bytes]) -> Path:
    """Write files by their paths in a folder, and return the folder."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return folder


def flipped(data: bytes) -> bytes:
    """Return data with one bit flipped in the middle."""
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]
