"""TensorFlow and Keras, imported when they are first used: light commands import the workloads."""

import importlib
from typing import Any


class _Lazy:
    def __init__(self, name: str):
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(importlib.import_module(self._name), attribute)


keras: Any = _Lazy("keras")
layers: Any = _Lazy("keras.layers")
tf: Any = _Lazy("tensorflow")
