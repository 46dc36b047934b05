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
FILES = (
    r"tensorflow\.python\.(lib\.io\.(_pywrap_file_io|tf_record)|ops\.gen_(io|summary)_ops"
    r"|ops\.gen_(experimental_)?dataset_ops|saved_model\.(save|load)|checkpoint\.checkpoint"
    r"|training\.py_checkpoint_reader)"
)
CHANGED = ("google.", "kfp.dsl.types.", "tensorflow.python.")
# Of a replica or step: Vertex AI's variables.
PROJECT_VARIABLE, DEFAULT_PROJECT = "CLOUD_ML_PROJECT_ID", "local"
LOCATION_VARIABLE, DEFAULT_LOCATION = "CLOUD_ML_REGION", "us-central1"
PROJECT_NUMBER = "1234"  # gcp-storage-emulator's, of every bucket
# Requests to endpoints, whose addresses the SDK's methods for raw predictions, and for private and
# dedicated endpoints contain.
ENDPOINTS = re.compile(r"https://[\w.-]+/(?=v1(beta1)?/projects/[^/]+/locations/[^/]+/endpoints/)")
# TensorFlow's functions and methods that take names of files.
WRITING = r"WritableFile|CopyFile|RenameFile|__init__"
LISTING = r"GetMatchingFiles|matching_files|save"  # they return names, too
OPENING = (
    f"{WRITING}|{LISTING}|[A-Z]\\w*(File|Dir|Directory|Recursively|Move)|FileExists|Stat|GetChildren"
    "|ReadFileToString|WriteStringToFile|BufferedInputStream|NewCheckpointReader|restore"
    "|save_and_return_nodes|load_partial|(read|write)_file|create_summary_file_writer"
    r"|(tf_record|text_line|csv|fixed_length_record)_dataset(_v2)?"
)
CLASSES = r"TFRecordWriter|TrackableSaver"
BUCKETS = os.environ.get("VERTEX_LOCAL_BUCKETS", "")
TOKEN = os.environ.get("VERTEX_EMULATOR_TOKEN") or "none"
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
    """Return credentials that send the service's token, which it may not require."""
    from google.oauth2.credentials import Credentials

    return Credentials(TOKEN)


def _redirect_settings(module: ModuleType) -> None:
    original = module._Config.init

    def init(config: Any, **options: Any) -> None:
        options |= {"api_endpoint": URL, "api_transport": "rest", "credentials": _credentials()}
        original(config, **options)

    module._Config.init = init
    init(
        module.global_config,
        project=os.environ.get(PROJECT_VARIABLE, DEFAULT_PROJECT),
        location=os.environ.get(LOCATION_VARIABLE, DEFAULT_LOCATION),
    )
    with contextlib.suppress(ImportError, AttributeError):  # a version without asynchronous REST
        from google.auth.aio.credentials import StaticCredentials

        module._set_async_rest_credentials(StaticCredentials(TOKEN))


def _redirect_client(module: ModuleType) -> None:
    """Redirect the generated client of a service, unless the program has made its transport."""
    [client] = (value for value in vars(module).values() if hasattr(value, "DEFAULT_ENDPOINT"))
    original = client.__init__

    def init(self: Any, **options: Any) -> None:
        if options.get("transport") in (None, "grpc", "rest"):
            options |= {
                "credentials": _credentials(),
                "transport": "rest",
                "client_options": {"api_endpoint": URL},
            }
        original(self, **options)

    client.__init__ = init
    if hasattr(client, "raw_predict"):
        client.raw_predict = _raw_predict


def _raw_predict(_client: Any, request: Any = None, **options: Any) -> Any:
    """Send the body of a RawPredictRequest as it is: the REST transport sends it as base64."""
    import requests
    from google.api.httpbody_pb2 import HttpBody

    fields = options if request is None else request
    if not isinstance(fields, dict):
        fields = {name: getattr(request, name) for name in ("endpoint", "http_body")}
    body = fields["http_body"]
    kind = body.content_type or "application/json"
    response = requests.post(
        f"{URL}/v1/{fields['endpoint']}:rawPredict",
        data=body.data,
        headers={"Content-Type": kind, "Authorization": f"Bearer {TOKEN}"},
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
        return original(self, method, ENDPOINTS.sub(f"{URL}/", url), *rest, **options)

    module.AuthorizedSession.request = request


def _redirect_artifacts(module: ModuleType) -> None:
    """Give artifacts with gs:// addresses their paths here, instead of those below /gcs."""
    if BUCKETS:
        module._GCS_LOCAL_MOUNT_PREFIX = f"{BUCKETS}/"  # type: ignore[attr-defined]


def _redirect_files(module: ModuleType) -> None:
    """Let TensorFlow use the files of gs:// addresses: its C++ asks Google, and nobody else."""
    classes = [value for name, value in vars(module).items() if re.fullmatch(CLASSES, name)]
    for owner in (module, *classes) if BUCKETS else ():
        for name, function in list(vars(owner).items()):
            if re.fullmatch(OPENING, name):
                setattr(owner, name, _with_paths(name, function))


def _with_paths(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*arguments: Any, **options: Any) -> Any:
        paths = _replaced(arguments, "gs:/", BUCKETS)
        for path in paths if re.fullmatch(WRITING, name) else ():
            if path not in arguments:  # Cloud Storage needs no folders
                os.makedirs(os.path.dirname(path), exist_ok=True)
        named = {key: _replaced(value, "gs:/", BUCKETS) for key, value in options.items()}
        result = function(*paths, **named)
        return _replaced(result, BUCKETS, "gs:/") if re.fullmatch(LISTING, name) else result

    return call


def _replaced(value: Any, start: str, other: str) -> Any:
    """Return names of files, which may be a tensor, with another start."""
    if type(value) in (list, tuple):  # not a list of Keras, which has its own state
        return [_replaced(part, start, other) for part in value]
    if getattr(getattr(value, "dtype", None), "name", "") == "string":
        strings: Any = sys.modules["tensorflow.python.ops.gen_string_ops"]
        return strings.static_regex_replace(value, f"^{re.escape(start)}/", f"{other}/")
    text = value.decode() if isinstance(value, bytes) else value
    is_changed = isinstance(text, str) and text.startswith(f"{start}/")
    return text.replace(start, other, 1) if is_changed else value


REDIRECTS: dict[str, Callable[[ModuleType], None]] = {
    SETTINGS: _redirect_settings,
    CLIENT: _redirect_client,
    PROJECTS: _redirect_projects,
    SESSION: _redirect_session,
    ARTIFACTS: _redirect_artifacts,
    FILES: _redirect_files,
}
sys.meta_path.insert(0, _Finder())
