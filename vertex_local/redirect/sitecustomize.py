"""Google's SDK in the service's processes, and in what `exec` runs, sends requests to the service.

Python imports this file at its start, so its own imports are few. The SDK's modules are changed
when the program imports them, before it can use them.
"""

from __future__ import annotations  # steps have the Python of their image

import contextlib
import os
import re
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

SETTINGS = r"google\.cloud\.aiplatform\.initializer"
CLIENT = r"google\.cloud\.aiplatform_v1(beta1)?\.services\.\w+\.client"
PROJECTS = r"google\.cloud\.aiplatform\.utils\.resource_manager_utils"
SESSION = r"google\.auth\.transport\.requests"
ARTIFACTS = r"kfp\.dsl\.types\.artifact_types"
FILES = r"tensorflow\.python\.lib\.io\.file_io"
CHANGED = ("google.", "kfp.dsl.types.", "tensorflow.python.lib.io.")
# Of a replica or step: Vertex AI's variables.
PROJECT_VARIABLE, DEFAULT_PROJECT = "CLOUD_ML_PROJECT_ID", "local"
LOCATION_VARIABLE, DEFAULT_LOCATION = "CLOUD_ML_REGION", "us-central1"
PROJECT_NUMBER = "1234"  # gcp-storage-emulator's, of every bucket
# Written into the SDK's methods for raw predictions and dedicated endpoints.
GOOGLES = re.compile(r"https://[\w.-]+(-aiplatform\.googleapis\.com|\.prediction\.vertexai\.goog)/")
WRITING = ("WritableFile", "CopyFile", "RenameFile")  # of TensorFlow's functions
BUCKETS = os.environ.get("VERTEX_LOCAL_BUCKETS", "")
TOKEN = os.environ.get("VERTEX_EMULATOR_TOKEN", "")
URL = f"http://{os.environ['VERTEX_EMULATOR_HOST']}"


class _Finder:
    """Finder of the SDK's modules, which it redirects once they are loaded."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not fullname.startswith(CHANGED):
            return None
        redirects = (change for name, change in REDIRECTS.items() if re.fullmatch(name, fullname))
        redirect = next(redirects, None)
        spec = PathFinder.find_spec(fullname, path, target) if redirect else None
        if redirect and spec and spec.loader:
            execute = spec.loader.exec_module

            def execute_and_redirect(module: ModuleType) -> None:
                execute(module)
                redirect(module)

            spec.loader.exec_module = execute_and_redirect  # type: ignore[method-assign]
        return spec


def _credentials() -> Any:
    """Return credentials that send the service's token, if it requires one."""
    if TOKEN:
        from google.oauth2.credentials import Credentials

        return Credentials(TOKEN)
    from google.auth.credentials import AnonymousCredentials

    return AnonymousCredentials()


def _redirect_settings(module: ModuleType) -> None:
    original = module._Config.init

    def init(config: Any, **options: Any) -> None:
        ours = {"api_endpoint": URL, "api_transport": "rest", "credentials": _credentials()}
        original(config, **{**options, **ours})

    module._Config.init = init
    init(
        module.global_config,
        project=os.environ.get(PROJECT_VARIABLE, DEFAULT_PROJECT),
        location=os.environ.get(LOCATION_VARIABLE, DEFAULT_LOCATION),
    )
    with contextlib.suppress(ImportError, AttributeError):  # a version without asynchronous REST
        from google.auth.aio import credentials

        own = credentials.StaticCredentials(TOKEN) if TOKEN else credentials.AnonymousCredentials()
        module._set_async_rest_credentials(own)


def _redirect_client(module: ModuleType) -> None:
    """Redirect the generated client of a service, unless the program has made its transport."""
    [client] = (value for value in vars(module).values() if hasattr(value, "DEFAULT_ENDPOINT"))
    original = client.__init__

    def init(self: Any, **options: Any) -> None:
        if options.get("transport") in (None, "grpc", "rest"):
            ours = {"credentials": _credentials(), "transport": "rest"}
            options |= {**ours, "client_options": {"api_endpoint": URL}}
        original(self, **options)

    client.__init__ = init
    if hasattr(client, "raw_predict"):
        client.raw_predict = _raw_predict


def _raw_predict(_client: Any, request: Any = None, **options: Any) -> Any:
    """Send the body of a RawPredictRequest as it is: the REST transport sends it as base64."""
    import requests
    from google.api.httpbody_pb2 import HttpBody

    fields = request if isinstance(request, dict) else {}
    if request and not fields:
        fields = {name: getattr(request, name) for name in ("endpoint", "http_body")}
    fields |= options
    body = fields["http_body"]
    response = requests.post(
        f"{URL}/v1/{fields['endpoint']}:rawPredict",
        data=body.data,
        headers={
            "Content-Type": body.content_type or "application/json",
            **({"Authorization": f"Bearer {TOKEN}"} if TOKEN else {}),
        },
        timeout=60,
    )
    response.raise_for_status()
    return HttpBody(content_type=response.headers["Content-Type"], data=response.content)


def _redirect_projects(module: ModuleType) -> None:
    """Let the SDK find, without Google's Resource Manager, that each bucket is the project's."""
    vars(module).update(
        get_project_number=lambda project_id, credentials=None: PROJECT_NUMBER,
        get_project_id=lambda project_number, credentials=None: project_number,
    )


def _redirect_session(module: ModuleType) -> None:
    original = module.AuthorizedSession.request

    def request(self: Any, method: str, url: str, *rest: Any, **options: Any) -> Any:
        return original(self, method, GOOGLES.sub(f"{URL}/", url), *rest, **options)

    module.AuthorizedSession.request = request


def _redirect_artifacts(module: ModuleType) -> None:
    """Give artifacts with gs:// addresses their paths here, instead of those below /gcs."""
    if BUCKETS:
        module._GCS_LOCAL_MOUNT_PREFIX = f"{BUCKETS}/"  # type: ignore[attr-defined]


def _redirect_files(module: ModuleType) -> None:
    """Let `tf.io.gfile` use the files of gs:// addresses; TensorFlow's operations ask Google."""
    if BUCKETS:
        module._pywrap_file_io = _Files(module._pywrap_file_io)  # type: ignore[attr-defined]


class _Files:
    """TensorFlow's functions for files, with paths in the place of gs:// addresses."""

    def __init__(self, functions: ModuleType) -> None:
        self._functions = functions

    def __getattr__(self, name: str) -> Any:
        function = getattr(self._functions, name)

        def call(*arguments: Any) -> Any:
            paths = [_path_of(argument) for argument in arguments]
            for path in paths if name in WRITING else ():
                if path not in arguments:  # Cloud Storage needs no folders
                    os.makedirs(os.path.dirname(path), exist_ok=True)
            return function(*paths)

        return call


def _path_of(argument: Any) -> Any:
    """Return the path of a gs:// address, and anything else as it is."""
    text = argument.decode() if isinstance(argument, bytes) else str(argument)
    return text.replace("gs:/", BUCKETS, 1) if text.startswith("gs://") else argument


REDIRECTS: dict[str, Callable[[ModuleType], None]] = {
    SETTINGS: _redirect_settings,
    CLIENT: _redirect_client,
    PROJECTS: _redirect_projects,
    SESSION: _redirect_session,
    ARTIFACTS: _redirect_artifacts,
    FILES: _redirect_files,
}
sys.meta_path.insert(0, _Finder())
