"""Checks of labels, which Vertex AI would refuse only minutes later."""

import re

from components.shared.vertex.labels import RUN_LABEL
from trainer.errors import ConfigError

# https://cloud.google.com/vertex-ai/docs/general/resource-labels-and-tags
LABEL_KEY = re.compile(r"[a-z][a-z0-9_-]{0,62}")
LABEL_VALUE = re.compile(r"[a-z0-9_-]{0,63}")
LABEL_RULE = "at most 63 of a-z, 0-9, '_' and '-'; a name begins with a letter"
MOST_LABELS = 60  # Vertex AI allows 64; the run's own, Vertex AI's and GCPC's take some


def check_labels(labels: dict[str, str]) -> None:
    """Check labels by Google's rules.

    Raises:
        ConfigError: one is not allowed; names it.
    """
    if len(labels) > MOST_LABELS:
        raise ConfigError(f"labels: {len(labels)} are too many; at most {MOST_LABELS} are allowed")
    for key, value in labels.items():
        if key == RUN_LABEL:
            raise ConfigError(f"labels.{key} is the run's own; leave it out")
        if not LABEL_KEY.fullmatch(key):
            raise ConfigError(f"labels.{key}: the name is not allowed; use {LABEL_RULE}")
        if not isinstance(value, str) or not LABEL_VALUE.fullmatch(value):
            raise ConfigError(f"labels.{key} is {value!r}; use {LABEL_RULE}")
