"""Archives of small files."""

import io
import tarfile
from collections.abc import Mapping


def tar_of(files: Mapping[str, bytes], *links: tuple[str, str, bytes], kind: str = "gz") -> bytes:
    """Return a tar archive of files, and of links: each a name, its target and tarfile's type."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=f"w:{kind}") as tar:
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
        for name, target, link in links:
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = link, target
            tar.addfile(entry)
    return buffer.getvalue()
