"""Packages in Artifact Registry repositories of the KFP format: immutable versions, movable tags.

https://cloud.google.com/vertex-ai/docs/pipelines/create-pipeline-template
"""

import re
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests

from components.shared.vertex.errors import VertexError
from components.shared.vertex.retries import error_of_exception, error_of_response, retry
from pipelines.errors import RegistryError
from pipelines.package.spec import Package, read_package
from trainer.errors import ConfigError

REPOSITORY = re.compile(
    r"https://(?P<location>[a-z0-9-]+)-kfp\.pkg\.dev/(?P<project>[a-z0-9:.-]+)/(?P<repo>[a-z0-9-]+)"
)
FORM = "https://LOCATION-kfp.pkg.dev/PROJECT/REPOSITORY"
NAME = r"[a-z0-9][a-z0-9-]{3,127}"
TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
VERSION_PREFIX = "sha256:"
ADDRESS = re.compile(rf"(?P<repository>.+)/(?P<package>{NAME})/(?P<version>[^/]+)")


@dataclass(frozen=True, kw_only=True)
class Uploaded:
    """An uploaded package: name, version `sha256:…`, and its addresses for submit."""

    name: str
    version: str
    addresses: tuple[str, ...]


def client_of(repository: str) -> Any:
    """Return KFP's client for a repository, with the default credentials."""
    from kfp.registry import RegistryClient

    return RegistryClient(host=repository)


def is_address(text: str) -> bool:
    """Return whether a text is the address of a package in a repository."""
    return text.startswith("https://")


def upload(package: Package, *, repository: str, tags: list[str]) -> Uploaded:
    """Upload a package to a repository and move the tags to it.

    An identical package is not uploaded again; only its tags move.

    Raises:
        ConfigError: the repository's address or a tag is not allowed.
        RegistryError: the repository refused the request or did not respond.
    """
    _check_repository(repository)
    for tag in tags:
        if not TAG.fullmatch(tag):
            raise ConfigError(f"--tag {tag!r} is not allowed; it must match {TAG.pattern}")
    if not re.fullmatch(NAME, package.name):
        raise ConfigError(f"pipelineInfo.name is {package.name!r}; it must match {NAME}")
    with tempfile.TemporaryDirectory(prefix="trainyard-upload-") as folder:
        path = Path(folder, f"{package.name}.yaml")
        path.write_text(package.text, encoding="utf-8")
        name, version = _request(
            repository, lambda: client_of(repository).upload_pipeline(path, tags)
        )
    host = repository.rstrip("/")
    addresses = tuple(f"{host}/{name}/{end}" for end in (*tags, version))
    return Uploaded(name=name, version=version, addresses=addresses)


def download(address: str) -> Package:
    """Download the package at LOCATION-kfp.pkg.dev/PROJECT/REPOSITORY/NAME/TAG (or `/sha256:…`).

    Raises:
        ConfigError: it is not such an address, or the file is not a package.
        RegistryError: the repository refused the request or did not respond.
    """
    match = ADDRESS.fullmatch(address)
    if not match:
        raise ConfigError(f"{address} is not a package's address; write {FORM}/NAME/TAG")
    repository, name, version = match["repository"], match["package"], match["version"]
    _check_repository(repository)
    key = "version" if version.startswith(VERSION_PREFIX) else "tag"
    with tempfile.TemporaryDirectory(prefix="trainyard-download-") as folder:
        path = Path(folder, "package.yaml")
        _request(
            address,
            lambda: client_of(repository).download_pipeline(
                name, file_name=str(path), **{key: version}
            ),
        )
        return read_package(path.read_text(encoding="utf-8"), source=address, address=address)


def _check_repository(repository: str) -> None:
    if not REPOSITORY.fullmatch(repository.rstrip("/")):
        raise ConfigError(f"{repository} is not a repository of packages; write {FORM}")


def _request(address: str, call: Callable[[], Any]) -> Any:
    """Call the repository and retry transient errors: versions are immutable, so this is safe."""

    def attempt() -> Any:
        try:
            return call()
        except requests.RequestException as error:
            failure = _vertex_error_of(error)
            if failure.is_transient:
                raise failure from error
            raise

    try:
        return retry(attempt, name=address)
    except requests.HTTPError as error:
        reason = error.response.text.strip()[:500] or error.response.reason
        raise RegistryError(f"{address}: {error.response.status_code} {reason}") from error
    except (VertexError, requests.RequestException) as error:
        raise RegistryError(f"{address} does not respond: {error}") from error


def _vertex_error_of(error: requests.RequestException) -> VertexError:
    if error.response is not None:
        return error_of_response(error.response)
    return error_of_exception(error, timeout_seconds=0)  # KFP's client sets no timeout
