"""Checks the settings of a run that only Vertex AI would refuse, minutes later."""

import re
from typing import Protocol

from components.labels import RUN_LABEL

# https://cloud.google.com/vertex-ai/docs/reference/rest/v1/CustomJobSpec
FORMS = {
    "service_account": (
        r"[a-z0-9][a-z0-9-]*@[a-z0-9.-]+\.gserviceaccount\.com",
        "the account's e-mail address, as trainyard@my-project.iam.gserviceaccount.com",
    ),
    "network": (
        r"projects/\d+/global/networks/[a-z0-9-]+",
        "projects/NUMBER/global/networks/NAME, with the project's number, not its id",
    ),
    "tensorboard": (
        r"projects/[^/]+/locations/[^/]+/tensorboards/[^/]+",
        "projects/PROJECT/locations/LOCATION/tensorboards/ID",
    ),
    "on_failure_url": (r"https?://[^\s/]+(/\S*)?", "a web address, as https://HOST/PATH"),
}
# https://cloud.google.com/vertex-ai/docs/general/resource-labels-and-tags
LABEL_KEY = re.compile(r"[a-z][a-z0-9_-]{0,62}")
LABEL_VALUE = re.compile(r"[a-z0-9_-]{0,63}")
LABEL_RULE = "at most 63 of a-z, 0-9, '_' and '-'; a name begins with a letter"
MOST_LABELS = 60  # Vertex AI allows 64; the run's own, Vertex AI's and GCPC's take some


class ConfigError(ValueError):
    """A setting that is not allowed; the message names it, and what is allowed."""


class OnVertex(Protocol):
    """The settings that are checked."""

    @property
    def service_account(self) -> str:
        """Account that the run and its training job run as."""

    @property
    def network(self) -> str:
        """Network that the training job is peered with."""

    @property
    def tensorboard(self) -> str:
        """TensorBoard instance."""

    @property
    def on_failure_url(self) -> str:
        """Webhook for a run that does not end well."""

    @property
    def labels(self) -> dict[str, str]:
        """Labels of the run and of all that it makes."""


def check_on_vertex(settings: OnVertex) -> None:
    """Checks the form of each setting.

    Raises:
        ConfigError: one is not allowed; names it, and what is.
    """
    for name, (pattern, form) in FORMS.items():
        value = getattr(settings, name)
        if not isinstance(value, str) or (value and not re.fullmatch(pattern, value)):
            raise ConfigError(f"{name} is {value!r}; it must be {form}, or empty")
    check_labels(settings.labels)


def check_together(settings: OnVertex) -> None:
    """Checks what one setting needs of another, once all are known.

    Raises:
        ConfigError: something is missing; names it.
    """
    if settings.tensorboard and not settings.service_account:
        raise ConfigError(
            "tensorboard needs service_account: Vertex AI writes to it as the job's account, which "
            "must have the roles Storage Admin and Vertex AI User"
        )


def check_labels(labels: dict[str, str]) -> None:
    """Checks labels by Google's rules.

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
