"""Check of requests against Vertex AI's protos, which refuse the same fields as Vertex AI."""

import importlib
import importlib.util
import logging
import sys
import threading
from types import ModuleType

from vertex_local import Json
from vertex_local.errors import ApiError, invalid_argument

logger = logging.getLogger(__name__)

PACKAGE = "google.cloud.aiplatform_v1"
TYPES = f"{PACKAGE}.types"
_importing = threading.Lock()


def parse(type_name: str, body: Json) -> Json:
    """Check `body` against `aiplatform_v1.types.<type_name>`; return its canonical JSON.

    Canonical: camelCase names, enum values by name, int64 as strings, no default values.

    Raises:
        ApiError: INVALID_ARGUMENT, naming the field that is unknown or has a wrong type.
    """
    from google.protobuf import json_format

    message = getattr(_types(), type_name).pb()()
    try:
        json_format.ParseDict(body, message)
        canonical: Json = json_format.MessageToDict(message)
    except RecursionError:
        raise _invalid_payload(type_name, "it is nested too deeply") from None
    except (json_format.ParseError, ValueError, TypeError, OverflowError) as error:
        raise _invalid_payload(type_name, str(error)) from None
    return canonical


def _types() -> ModuleType:
    """Import `aiplatform_v1.types` without the clients beside it, which take three times as long.

    Whoever imports the package later has it whole, with the same types.
    """
    with _importing:
        if TYPES not in sys.modules and PACKAGE not in sys.modules:
            spec = importlib.util.find_spec(PACKAGE)
            assert spec is not None
            sys.modules[PACKAGE] = importlib.util.module_from_spec(spec)  # and do not execute it
            try:
                return importlib.import_module(TYPES)
            finally:
                del sys.modules[PACKAGE]
        return importlib.import_module(TYPES)


def warm_up() -> threading.Thread:
    """Import the protos in a thread: GET requests do not need them."""
    thread = threading.Thread(target=_import_protos, name="import-protos", daemon=True)
    thread.start()
    return thread


def _import_protos() -> None:
    try:
        parse("Model", {})
    except Exception:
        logger.exception("google.cloud.aiplatform_v1 cannot be imported; writes will fail")


def _invalid_payload(type_name: str, problem: str) -> ApiError:
    problem = problem.split("\n", maxsplit=1)[0].removeprefix("Failed to parse ")
    return invalid_argument(f"Invalid JSON payload for {type_name}: {problem.rstrip('.')}.")
