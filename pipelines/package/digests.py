"""Images by their digest: a tag may move to other code while a schedule goes on.

Vertex AI refuses a name with both (https://github.com/kubeflow/pipelines/issues/8490).
"""

import functools
import logging
import re

import requests
from google.auth.exceptions import GoogleAuthError

from components.shared.vertex.task_details import images_in
from pipelines.package.spec import Package, read_package
from trainer.errors import ConfigError

logger = logging.getLogger(__name__)

# As in Docker, a registry's host has a dot or a port: `us-docker.pkg.dev/…`, `localhost:5000/…`.
PULLABLE = re.compile(r"(?:[^/]+[.:][^/]*|localhost)/.+")
TAGGED = re.compile(r"(?P<host>[^/@]+)/(?P<path>[^:@]+):(?P<tag>[^:@/]+)")
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
# Only these hosts get a token. https://cloud.google.com/artifact-registry/docs/docker/authentication
GOOGLES = re.compile(r"[a-z0-9-]+-docker\.pkg\.dev|(?:[a-z]+\.)?gcr\.io")
LOOPBACK = re.compile(r"(?:127\.0\.0\.1|localhost)(?::\d+)?")  # over HTTP, as Docker does
OF_COMPONENTS = "gcr.io/ml-pipeline/"  # Google's own, by their version
# https://github.com/opencontainers/distribution-spec: of one platform, or an index of several.
KINDS = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
TIMEOUT_SECONDS = 10.0


def with_digests(package: Package) -> Package:
    """Return a package that names its images by digests; one at an address stays as it is.

    Raises:
        ConfigError: Vertex AI cannot pull an image.
    """
    text = package.text
    for image, task in images_in(package.spec).items():
        _check_pullable(image or f'"" of {task}')
        if not package.address:
            name = re.compile(rf"(?<![\w./-]){re.escape(image)}(?![\w.@-])")
            text = name.sub(by_digest(image), text)
    return package if text == package.text else read_package(text, source=package.source)


@functools.cache
def by_digest(image: str) -> str:
    """Return an image by its digest, or as it is if it has no tag or its registry tells none.

    Raises:
        ConfigError: Vertex AI cannot pull it: its name has no registry, or it is not there.
    """
    _check_pullable(image)
    match = TAGGED.fullmatch(image)
    if not match or image.startswith(OF_COMPONENTS):
        return image
    try:
        response = _head(match["host"], f"v2/{match['path']}/manifests/{match['tag']}")
    except (requests.RequestException, GoogleAuthError, ValueError) as error:
        return _by_tag(image, str(error))
    if response.status_code == requests.codes.not_found:
        raise ConfigError(f"the image {image} is not in its registry; push it, or give --image")
    digest = response.headers.get("Docker-Content-Digest", "")
    if not (response.ok and DIGEST.fullmatch(digest)):
        return _by_tag(image, f"{match['host']} returned {response.status_code}")
    logger.warning("%s is sent as %s", image, digest)
    return f"{match['host']}/{match['path']}@{digest}"


def _check_pullable(image: str) -> None:
    if not PULLABLE.fullmatch(image):
        raise ConfigError(
            f"the image {image} has no registry in its name, so Vertex AI cannot"
            " pull it; build and push an image, and give --image"
            " LOCATION-docker.pkg.dev/PROJECT/REPOSITORY/NAME:TAG"
        )


def _by_tag(image: str, reason: str) -> str:
    logger.warning(
        "%s is sent by its tag, and what is pushed to it later runs: its digest is unknown (%s)",
        image,
        reason.partition("\n")[0],
    )
    return image


def _head(host: str, path: str) -> requests.Response:
    """Ask a registry for a manifest; its headers have the digest."""
    session, scheme = requests.Session(), "http"
    if GOOGLES.fullmatch(host):
        import google.auth
        from google.auth.transport.requests import AuthorizedSession

        credentials, _ = google.auth.default(["https://www.googleapis.com/auth/cloud-platform"])
        session, scheme = AuthorizedSession(credentials), "https"
    elif not LOOPBACK.fullmatch(host):
        raise ValueError(f"{host} is no registry of Google's")
    headers = {"Accept": ", ".join(KINDS)}
    return session.head(f"{scheme}://{host}/{path}", headers=headers, timeout=TIMEOUT_SECONDS)
