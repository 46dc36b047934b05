"""Packages in an Artifact Registry repository of the KFP format: versions never change, tags move.

https://cloud.google.com/vertex-ai/docs/pipelines/create-pipeline-template
"""

import re
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests

from components.vertex.retries import (
    VertexError,
    error_of_exception,
    error_of_response,
    retry,
)
from pipelines.package.spec import Package, read_package
from trainer.config.settings import ConfigError

REPOSITORY = re.compile(
    r"https://(?P<location>[a-z0-9-]+)-kfp\.pkg\.dev/(?P<project>[a-z0-9:.-]+)/(?P<repo>[a-z0-9-]+)"
)
FORM = "https://LOCATION-kfp.pkg.dev/PROJECT/REPOSITORY"
NAME = r"[a-z0-9][a-z0-9-]{3,127}"
TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
VERSION_PREFIX = "sha256:"
ADDRESS = re.compile(rf"(?P<repository>.+)/(?P<package>{NAME})/(?P<version>[^/]+)")


class RegistryError(Exception):
    """The repository refused, or did not answer; the message says what it said."""


@dataclass(frozen=True, kw_only=True)
class Uploaded:
    """A package in a repository: its name, its version `sha256:…`, and addresses to submit."""

    name: str
    version: str
    addresses: tuple[str, ...]


def client_of(repository: str) -> Any:
    """KFP's client for a repository, with the environment's default credentials."""
    from kfp.registry import RegistryClient

    return RegistryClient(host=repository)


def is_address(text: str) -> bool:
    """Whether a text means a package in a repository."""
    return text.startswith("https://")


def upload(package: Package, *, repository: str, tags: list[str]) -> Uploaded:
    """Puts a package into a repository and points the tags at it.

    What is there already, to the byte, is not put there twice: only its tags move.

    Raises:
        ConfigError: the repository's address or a tag is not allowed.
        RegistryError: the repository refused.
    """
    _check_repository(repository)
    for tag in tags:
        if not TAG.fullmatch(tag):
            raise ConfigError(f"--tag {tag!r} is not allowed; it must match {TAG.pattern}")
    if not re.fullmatch(NAME, package.name):
        raise ConfigError(f"pipelineInfo.name is {package.name!r}; a repository takes {NAME}")
    with tempfile.TemporaryDirectory(prefix="trainyard-upload-") as folder:
        path = Path(folder, f"{package.name}.yaml")
        path.write_text(package.text, encoding="utf-8")
        name, version = _ask(repository, lambda: client_of(repository).upload_pipeline(path, tags))
    host = repository.rstrip("/")
    addresses = tuple(f"{host}/{name}/{end}" for end in (*tags, version))
    return Uploaded(name=name, version=version, addresses=addresses)


def download(address: str) -> Package:
    """The package at `https://LOCATION-kfp.pkg.dev/PROJECT/REPOSITORY/NAME/TAG` (or `/sha256:…`).

    Raises:
        ConfigError: that is no such address, or there is no package in it.
        RegistryError: the repository refused.
    """
    match = ADDRESS.fullmatch(address)
    if not match:
        raise ConfigError(f"{address} is not a package's address; write {FORM}/NAME/TAG")
    repository, name, version = match["repository"], match["package"], match["version"]
    _check_repository(repository)
    key = "version" if version.startswith(VERSION_PREFIX) else "tag"
    with tempfile.TemporaryDirectory(prefix="trainyard-download-") as folder:
        path = Path(folder, "package.yaml")
        _ask(
            address,
            lambda: client_of(repository).download_pipeline(
                name, file_name=str(path), **{key: version}
            ),
        )
        return read_package(path.read_text(encoding="utf-8"), source=address, address=address)


def _check_repository(repository: str) -> None:
    if not REPOSITORY.fullmatch(repository.rstrip("/")):
        raise ConfigError(f"{repository} is not a repository for pipelines; write {FORM}")


def _ask(what: str, call: Callable[[], Any]) -> Any:
    """Ask the repository, again where it may pass: versions never change, so a repeat is safe."""

    def attempt() -> Any:
        try:
            return call()
        except requests.RequestException as error:
            failure = _failure_of(error)
            if failure.is_transient:
                raise failure from error
            raise

    try:
        return retry(attempt, name=what)
    except requests.HTTPError as error:
        said = error.response.text.strip()[:500] or error.response.reason
        raise RegistryError(f"{what}: {error.response.status_code} {said}") from error
    except (VertexError, requests.RequestException) as error:
        raise RegistryError(f"{what} does not answer: {error}") from error


def _failure_of(error: requests.RequestException) -> VertexError:
    if error.response is not None:
        return error_of_response(error.response)
    return error_of_exception(error, timeout_seconds=0)  # KFP's client sets none
