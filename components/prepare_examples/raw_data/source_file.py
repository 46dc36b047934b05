"""A raw file, and the archive that it may be published in."""

from dataclasses import dataclass


@dataclass(frozen=True)
class SourceFile:
    """A raw file, and the gzipped form if it is published as one (`NAME.gz`)."""

    name: str
    sha256: str
    gzip_sha256: str | None = None

    @property
    def gzip_name(self) -> str:
        """The published, compressed file's name."""
        return f"{self.name}.gz"


@dataclass(frozen=True)
class Archive:
    """The one archive under which all of a source's files are published."""

    name: str
    sha256: str
