"""Of programs that `vertex-local exec` runs: Google's SDK sends its requests to the service.

Python imports this file at its start. The SDK's settings are changed when the program imports them,
before `aiplatform.init` exists.
"""

import importlib.abc
import importlib.util
import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

SETTINGS = "google.cloud.aiplatform.initializer"
DEFAULT_PROJECT, DEFAULT_LOCATION = "local", "us-central1"


class _Finder(importlib.abc.MetaPathFinder):
    """Finder of the SDK's settings, which it redirects once they are loaded."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of the settings, with a loader that redirects them."""
        if fullname != SETTINGS:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec and spec.loader:
            execute = spec.loader.exec_module

            def execute_and_redirect(module: ModuleType) -> None:
                execute(module)
                _redirect(module)

            spec.loader.exec_module = execute_and_redirect  # type: ignore[method-assign]
        return spec


def _redirect(module: ModuleType) -> None:
    from google.auth.credentials import AnonymousCredentials

    original = module._Config.init

    def init(config: Any, **options: Any) -> None:
        ours = {
            "api_endpoint": f"http://{os.environ['VERTEX_EMULATOR_HOST']}",
            "api_transport": "rest",
            "credentials": AnonymousCredentials(),
        }
        original(config, **{**options, **ours})

    module._Config.init = init
    init(module.global_config, project=DEFAULT_PROJECT, location=DEFAULT_LOCATION)


sys.meta_path.insert(0, _Finder())
