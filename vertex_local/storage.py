"""The Cloud Storage API for the folder of buckets, by gcp-storage-emulator (the extra `buckets`).

The emulator lists the objects that were uploaded to it. Steps and replicas write files instead, so
each request first brings the list up to date for the files that it concerns. `ifGenerationMatch`,
which the emulator ignores, is obeyed here. Nothing is kept but the files: an object's own metadata
lasts as long as the service.
"""

import base64
import hashlib
import hmac
import json
import logging
import mimetypes
import os
import re
import socket
import threading
from collections.abc import Iterator
from functools import partial
from http import HTTPStatus
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import google_crc32c
from gcp_storage_emulator import server
from gcp_storage_emulator.handlers import buckets, objects
from gcp_storage_emulator.storage import RESUMABLE_DIR, Storage, _FileStore

from vertex_local import Json
from vertex_local.machine.buckets import NAME
from vertex_local.machine.ports import LOOPBACK

logger = logging.getLogger(__name__)
HOST_VARIABLE = "STORAGE_EMULATOR_HOST"  # Google's clients read it
IDLE_TIMEOUT_SECONDS = 30.0  # of a connection
CHUNK_BYTES = 1 << 20
# Clients quote the slashes of an object's name.
OBJECT = re.compile(r".*/b/(?P<bucket>[^/]+)(/o(/(?P<name>[^/]+).*)?)?")
UPLOAD, BATCH = "/upload/", "/batch/"  # the names of their objects are in the body
FORBIDDEN = "/wipe"  # the emulator's own request to delete all buckets
Stamp = tuple[int, int]  # size in bytes, and time of the last change in nanoseconds


class PreconditionError(Exception):
    """An object has not the generation that a request wants."""


class FolderStorage(Storage):  # type: ignore[misc]  # it has no types
    """Storage whose objects are the files of a folder with a folder per bucket."""

    def __init__(self, folder: Path) -> None:
        super().__init__(use_memory_fs=True)
        self._folder = folder
        self._store = _FileStore(use_memory=False, root=folder)
        self._delete_dir(RESUMABLE_DIR)  # uploads that an earlier service did not finish
        self._stamps: dict[Path, Stamp] = {}
        self.lock = threading.Lock()
        self.wanted_generation: str | None = None

    def create_bucket(self, bucket_name: str, bucket_obj: Json) -> Json:
        """Create a bucket whose deleted objects are gone at once."""
        policy = {"softDeletePolicy": {"retentionDurationSeconds": "0"}}
        created: Json = super().create_bucket(bucket_name, {**bucket_obj, **policy})
        return created

    def create_resumable_upload(self, bucket_name: str, file_name: str, file_obj: Json) -> str:
        """Begin the upload of an object; return its id."""
        self._check_generation(bucket_name, file_name)
        return str(super().create_resumable_upload(bucket_name, file_name, file_obj))

    def create_file(self, bucket_name: str, file_name: str, *rest: Any, **options: Any) -> None:
        """Write an object."""
        self._check_generation(bucket_name, file_name)
        super().create_file(bucket_name, file_name, *rest, **options)
        path = self._folder / bucket_name / file_name
        self._stamps[path] = _stamp(path)

    def delete_file(self, bucket_name: str, file_name: str) -> None:
        """Delete an object."""
        self._check_generation(bucket_name, file_name)
        super().delete_file(bucket_name, file_name)

    def refresh(self, path: str) -> None:
        """Bring the list up to date with the files that the path of a request concerns."""
        for folder in self._folder.iterdir():
            if folder.is_dir() and NAME.fullmatch(folder.name) and folder.name not in self.buckets:
                buckets.create_bucket(folder.name, self)
        match = OBJECT.fullmatch(path)
        if match and not path.startswith(UPLOAD):
            name = "" if path.endswith("/compose") else unquote(match["name"] or "")
            self._refresh(unquote(match["bucket"]), name)
        elif path.startswith(BATCH):
            for bucket in self.buckets:
                self._refresh(bucket, "")

    def _write_config_to_file(self) -> None:
        """Keep nothing: the folders and files tell all."""

    def _check_generation(self, bucket: str, name: str) -> None:
        """Raise a PreconditionError if the request wants another generation; 0 is no object."""
        self._refresh(bucket, name)
        generation = str(self.objects.get(bucket, {}).get(name, {}).get("generation", 0))
        wanted, self.wanted_generation = self.wanted_generation, None
        if wanted not in (None, generation):
            raise PreconditionError(f"the generation of {name} is {generation}")

    def _refresh(self, bucket: str, name: str) -> None:
        if bucket not in self.buckets:
            return
        known = self.objects.setdefault(bucket, {})
        paths = dict(_files(self._folder / bucket, name))
        for file, path in paths.items():
            stamp = _stamp(path)
            if file not in known or self._stamps.get(path) != stamp:
                known[file] = {**known.get(file, {}), **_described(path, bucket, file)}
                self._stamps[path] = stamp
        for lost in ({name} if name else set(known)) & known.keys() - paths.keys():
            del known[lost]


def start(folder: Path, listener: socket.socket, *, token: str = "") -> None:
    """Serve the buckets below a folder on a listening socket, to the end of this process.

    A token is the first part of the address of each request: Google's clients send no other.
    """
    _Handler.prefix = f"/{token}" if token else ""
    handler = partial(_Handler, FolderStorage(folder))
    httpd = ThreadingHTTPServer(listener.getsockname(), handler, bind_and_activate=False)
    httpd.daemon_threads = True
    httpd.socket.close()
    httpd.socket = listener
    threading.Thread(target=httpd.serve_forever, name="storage", daemon=True).start()


class _Request(server.Request):  # type: ignore[misc]
    """Request whose answer has addresses with the token."""

    def __init__(self, handler: "_Handler", method: str) -> None:
        super().__init__(handler, method)
        self._base_url += handler.prefix
        self._full_url = self._base_url + self._path


server.Request = _Request


class _Handler(server.RequestHandler):  # type: ignore[misc]
    timeout = IDLE_TIMEOUT_SECONDS
    prefix = ""

    def _serve(self) -> None:
        named = self.path[: len(self.prefix)]
        self.path: str = self.path.removeprefix(self.prefix)
        if not hmac.compare_digest(named.encode(), self.prefix.encode()):
            self._refuse(HTTPStatus.FORBIDDEN, f"the address lacks the token; see {HOST_VARIABLE}")
            return
        address = urlsplit(self.path)
        host = self.headers.get("Host", "").partition(":")[0]
        # A page of the web that a browser on this machine shows may send requests, too.
        if host not in (LOOPBACK, "localhost") or "Origin" in self.headers:
            self._refuse(HTTPStatus.FORBIDDEN, "only programs of this machine are served")
            return
        if address.path == FORBIDDEN:
            self._refuse(HTTPStatus.NOT_FOUND, "not a request of Cloud Storage")
            return
        with self.storage.lock:
            [wanted] = parse_qs(address.query).get("ifGenerationMatch", [None])[-1:]
            self.storage.wanted_generation = wanted
            try:
                self.storage.refresh(address.path)
                server.Router(self).handle(self.command)
            except PreconditionError as error:
                self._refuse(HTTPStatus.PRECONDITION_FAILED, str(error))
            except (OSError, ValueError) as error:  # before a byte of the answer
                self._refuse(HTTPStatus.BAD_REQUEST, str(error))

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _serve  # noqa: N815

    def _refuse(self, status: HTTPStatus, message: str) -> None:
        content = json.dumps({"error": {"code": status, "message": message}}).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


def _files(folder: Path, name: str) -> Iterator[tuple[str, Path]]:
    """Yield the objects of a bucket with their files, or the named one, without links."""
    if name:
        if (folder / name).is_file() and (folder / name).resolve().is_relative_to(folder.resolve()):
            yield name, folder / name
        return
    for parent, _, names in os.walk(folder):
        for path in (Path(parent, name) for name in names):
            if path.is_file() and not path.is_symlink():
                yield str(path.relative_to(folder)), path


def _stamp(path: Path) -> Stamp:
    status = path.stat()
    return status.st_size, status.st_mtime_ns


def _described(path: Path, bucket: str, name: str) -> Json:
    """Return the metadata of an object that a program has written as a file."""
    size, changed_ns = _stamp(path)
    md5, crc32c = hashlib.md5(usedforsecurity=False), 0
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            md5.update(chunk)
            crc32c = google_crc32c.extend(crc32c, chunk)
    kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
    described: Json = objects._make_object_resource("", bucket, name, kind, str(size))
    digests = {"md5Hash": md5.digest(), "crc32c": crc32c.to_bytes(4, "big")}
    encoded = {field: base64.b64encode(digest).decode() for field, digest in digests.items()}
    return {**described, **encoded, "etag": encoded["md5Hash"], "generation": str(changed_ns)}
