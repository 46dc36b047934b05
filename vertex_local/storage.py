"""The Cloud Storage API for the folder of buckets, by gcp-storage-emulator (the extra `buckets`).

The emulator lists the objects that were uploaded to it. Steps and replicas write files instead, so
each request first brings the list up to date for the files that it concerns. `ifGenerationMatch`,
which the emulator ignores, is obeyed here. Nothing is kept but the files: an object's own metadata
lasts as long as the service.

An object whose name ends with a slash is a folder: one that was uploaded, as by Cloud Storage's
console and gsutil, or an empty one.
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
import stat
import threading
from collections.abc import Container, Iterator
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from http.server import ThreadingHTTPServer
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import google_crc32c
from gcp_storage_emulator import server
from gcp_storage_emulator.handlers import buckets, objects
from gcp_storage_emulator.storage import RESUMABLE_DIR, Storage, _FileStore

from vertex_local import Json
from vertex_local.machine.buckets import NAME, NAME_RULES
from vertex_local.machine.ports import LOOPBACK

logger = logging.getLogger(__name__)
HOST_VARIABLE = "STORAGE_EMULATOR_HOST"  # Google's clients read it
IDLE_TIMEOUT_SECONDS = 30.0  # of a connection
CHUNK_BYTES = 1 << 20
# Clients quote the slashes of an object's name.
OBJECT = re.compile(r".*/b/(?P<bucket>[^/]+)(/o(/(?P<name>[^/]+).*)?)?")
UPLOAD, BATCH = "/upload/", "/batch/"  # the names of their objects are in the body
FORBIDDEN = "/wipe"  # the emulator's own request to delete all buckets
RESERVED = "goog"  # the start of names that only Google gives
Stamp = tuple[int, int]  # size in bytes, and time of the last change in nanoseconds
FOLDER_STAMP = (0, 1)  # its time changes with its files


class PreconditionError(Exception):
    """An object has not the generation that a request wants."""


class _Files(_FileStore):  # type: ignore[misc]
    """Files below a folder for each bucket; a name that ends with a slash is a folder's."""

    def write_bytes(self, rel: str, content: bytes) -> None:
        if not rel.endswith("/"):
            super().write_bytes(rel, content)
        elif content:
            raise ValueError(f"{rel} has content, but an object that ends with / is a folder here")
        else:
            self.makedirs(rel)

    def read_bytes(self, rel: str) -> bytes:
        if rel.endswith("/") and self._disk_path(rel).is_dir():
            return b""
        return bytes(super().read_bytes(rel))

    def remove_file(self, rel: str) -> None:
        if not rel.endswith("/"):
            super().remove_file(rel)  # a folder is removed with the last file in it

    def _disk_path(self, rel: str) -> Path:
        path: Path = super()._disk_path(rel)
        bucket = self._root.joinpath(*path.relative_to(self._root).parts[:1])
        if not path.resolve().is_relative_to(bucket.resolve()):
            raise PermissionError(f"{rel}: a symbolic link leads out of the bucket")
        return path


class FolderStorage(Storage):  # type: ignore[misc]  # it has no types
    """Storage whose objects are the files of a folder with a folder per bucket."""

    def __init__(self, folder: Path) -> None:
        super().__init__(use_memory_fs=True)
        self._folder = folder
        self._store = _Files(use_memory=False, root=folder)
        self._delete_dir(RESUMABLE_DIR)  # uploads that an earlier service did not finish
        self._stamps: dict[Path, Stamp] = {}
        self._uploaded_folders: set[Path] = set()
        self.lock = threading.Lock()
        self.wanted_generation: str | None = None

    def create_bucket(self, bucket_name: str, bucket_obj: Json) -> Json:
        """Create a bucket whose deleted objects are gone at once.

        Raises:
            ValueError: Cloud Storage would refuse the name.
        """
        if not NAME.fullmatch(bucket_name) or bucket_name.startswith(RESERVED):
            raise ValueError(f'bucket "{bucket_name}": {NAME_RULES}, nor does it start with "goog"')
        policy = {"softDeletePolicy": {"retentionDurationSeconds": "0"}}
        created: Json = super().create_bucket(bucket_name, bucket_obj | policy)
        return created

    def create_resumable_upload(self, bucket_name: str, file_name: str, file_obj: Json) -> str:
        """Begin the upload of an object; return its id."""
        self._check_generation(bucket_name, file_name)
        return str(super().create_resumable_upload(bucket_name, file_name, file_obj))

    def create_file(self, bucket_name: str, file_name: str, *rest: Any, **options: Any) -> None:
        """Write an object.

        Raises:
            ValueError: its name, or the start of its name, is taken by a folder or a file.
        """
        self._check_generation(bucket_name, file_name)
        try:
            super().create_file(bucket_name, file_name, *rest, **options)
        except (FileExistsError, IsADirectoryError, NotADirectoryError):
            raise ValueError(
                f'"{file_name}" needs a folder where there is a file, or a file where there is a'
                " folder: here, unlike in Cloud Storage, a name is either; choose another"
            ) from None
        path = self._folder / bucket_name / file_name
        self._stamps[path] = _stamp(path)
        if file_name.endswith("/"):
            self._uploaded_folders.add(path)

    def delete_file(self, bucket_name: str, file_name: str) -> None:
        """Delete an object, and the folders that are empty then, unless they are objects, too."""
        self._check_generation(bucket_name, file_name)
        super().delete_file(bucket_name, file_name)
        bucket = self._folder / bucket_name
        self._uploaded_folders.discard(bucket / file_name)
        folders = PurePosixPath(f"{file_name}x").parents[:-1]
        with suppress(OSError):  # it is not empty
            for folder in (bucket / name for name in folders):
                if folder in self._uploaded_folders:
                    break
                folder.rmdir()

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
        paths = dict(_files(self._folder / bucket, name, self._uploaded_folders))
        for file, path in paths.items():
            stamp = _stamp(path)
            if file not in known or self._stamps.get(path) != stamp:
                known[file] = known.get(file, {}) | _described(path, bucket, file)
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
        if self.query.get("uploadType") == ["media"]:  # also JSON is content, and none is empty
            raw = server._read_raw_data(handler)
            self._data = server._decode_raw_data(raw, handler) or b""


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
            except Exception as error:  # the emulator trusts requests, such as one without a body
                logger.warning("%s %s: %r", self.command, self.path, error)
                self._refuse(HTTPStatus.BAD_REQUEST, f"the request is malformed: {error!r}")

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _serve  # noqa: N815

    def _refuse(self, status: HTTPStatus, message: str) -> None:
        content = json.dumps({"error": {"code": status, "message": message}}).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


def _files(folder: Path, name: str, uploaded: Container[Path]) -> Iterator[tuple[str, Path]]:
    """Yield the objects of a bucket with their files, or the named one, without links."""
    if name:
        path = folder / name
        if not path.resolve().is_relative_to(folder.resolve()):
            return
        is_object = path.is_file()
        if name.endswith("/"):
            is_object = path.is_dir() and (path in uploaded or not any(path.iterdir()))
        if is_object:
            yield name, path
        return
    for parent, folders, names in os.walk(folder):
        path = Path(parent)
        if path != folder and (path in uploaded or not folders + names):
            yield f"{path.relative_to(folder)}/", path
        for path in (Path(parent, name) for name in names):
            if path.is_file() and not path.is_symlink():
                yield str(path.relative_to(folder)), path


def _stamp(path: Path) -> Stamp:
    status = path.stat()
    if stat.S_ISDIR(status.st_mode):
        return FOLDER_STAMP
    return status.st_size, status.st_mtime_ns


def _described(path: Path, bucket: str, name: str) -> Json:
    """Return the metadata of an object that a program has written as a file."""
    size, changed_ns = _stamp(path)
    md5, crc32c = hashlib.md5(usedforsecurity=False), 0
    if not name.endswith("/"):
        with path.open("rb") as file:
            while chunk := file.read(CHUNK_BYTES):
                md5.update(chunk)
                crc32c = google_crc32c.extend(crc32c, chunk)
    kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
    described: Json = objects._make_object_resource("", bucket, name, kind, str(size))
    digests = {"md5Hash": md5.digest(), "crc32c": crc32c.to_bytes(4, "big")}
    encoded = {field: base64.b64encode(digest).decode() for field, digest in digests.items()}
    return {**described, **encoded, "etag": encoded["md5Hash"], "generation": str(changed_ns)}
