"""Configuration of a run, checked; as the pipeline's parameters and back."""

import json
import re
from typing import Annotated, Any, Self

from pydantic import AfterValidator, Field, model_validator

from components.evaluate.gate.options import GateOptions
from components.evaluate.thresholds import read_limits
from components.plan_training.shape import ClusterSpec
from components.prepare_examples.settings.options import (
    PrepareOptions,
    PrepareSettings,
    SampleOptions,
)
from components.release.options import ReleaseOptions, ServingOptions
from components.run_result.settings import READABLE_ADDRESS, SECRET, VARIABLE
from components.shared.text.json_object import parse_object
from components.shared.vertex.labels import RUN_LABEL
from components.start.trigger import Trigger
from trainer import Json
from trainer.config.settings import Line, Name, setting
from trainer.config.train_config import TrainConfig, TrainSettings
from trainer.errors import ConfigError
from trainer.references import BUILT_IN, valid_name, workload_name

# Also inside quotes in the filter of a request, part of a path, and in the name of a job.
DISPLAY_NAME = {
    "pattern": r"""[^"\\/.\s][^"\\/]{0,119}""",
    "form": "at most 120 characters on one line, without quotation marks, slashes and backslashes,"
    " that do not begin with a dot or a space",
}
# The trainer's settings that the pipeline sets.
PLANNED_FLAGS = ("workload", "examples_dir", "output_dir", "strategy")
# Settings that are JSON objects in the pipeline's parameters.
JSON_GROUPS = ("train", "thresholds", "gate", "prepare", "trigger", "release", "serving")
# https://cloud.google.com/vertex-ai/docs/general/resource-labels-and-tags
LABEL_KEY = re.compile(r"[a-z][a-z0-9_-]{0,62}")
LABEL_VALUE = re.compile(r"[a-z0-9_-]{0,63}")
LABEL_RULE = "at most 63 of a-z, 0-9, '_' and '-'; a name begins with a letter"
MOST_LABELS = 60  # Vertex AI allows 64; the run's own, Vertex AI's and GCPC's take some


def _check_thresholds(thresholds: Json) -> Json:
    read_limits(thresholds)
    return thresholds


def check_labels(labels: Json) -> Json:
    """Return labels, checked by Google's rules.

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
    return labels


class RunConfig(SampleOptions):
    """Configuration of a run.

    The settings from `service_account` to `tensorboard` affect Vertex AI only.
    """

    workload: Name = setting("workload to train")
    model_name: Line = setting("name of the model in the registry", **DISPLAY_NAME)
    endpoint_name: Line = setting("name of the endpoint that serves the model", **DISPLAY_NAME)
    cluster: ClusterSpec = setting("replicas and their machines", default=ClusterSpec())
    train: TrainSettings = setting("settings of the trainer", default=TrainSettings())
    thresholds: Annotated[dict[str, Any], AfterValidator(_check_thresholds)] = setting(
        "least metrics of a model to deploy, the largest where lower is better, or METRIC.at_least"
        " and METRIC.at_most",
        default={},
    )
    gate: GateOptions = setting(
        "comparison with the default version, slices and further conditions of the deployment",
        default=GateOptions(),
    )
    prepare: PrepareSettings = setting("settings of prepare_examples", default=PrepareSettings())
    trigger: Trigger = setting("conditions of training besides the clock", default=Trigger())
    keep_endpoint: bool = setting("keep the endpoint when the run ends", default=False)
    # https://cloud.google.com/vertex-ai/docs/reference/rest/v1/CustomJobSpec
    service_account: Line = setting(
        "account of the run and its training job",
        default="",
        pattern=r"[a-z0-9][a-z0-9-]*@[a-z0-9.-]+\.gserviceaccount\.com",
        form="the account's e-mail address, as trainyard@my-project.iam.gserviceaccount.com",
    )
    network: Line = setting(
        "network that the training job is peered with",
        default="",
        pattern=r"projects/\d+/global/networks/[a-z0-9-]+",
        form="projects/NUMBER/global/networks/NAME, with the project's number, not its id",
    )
    tensorboard: Line = setting(
        "TensorBoard instance of the training job",
        default="",
        pattern=r"projects/[^/]+/locations/[^/]+/tensorboards/[^/]+",
        form="projects/PROJECT/locations/LOCATION/tensorboards/ID",
    )
    on_failure_url: Annotated[Line, Field(json_schema_extra={"format": "password"})] = setting(
        "webhook that is called when the run fails, or where its address is",
        default="",
        pattern=rf"{READABLE_ADDRESS}|{VARIABLE}|{SECRET}",
        form="a web address, as https://HOST/PATH, or, for a secret one, env:NAME with a variable"
        " of the steps, or projects/PROJECT/secrets/NAME/versions/VERSION of Secret Manager",
    )
    report_success: bool = setting(
        "call the webhook of on_failure_url after every run, not only after a failure",
        default=False,
    )
    release: ReleaseOptions = setting(
        "settings of the release: replay, canary, what stays deployed", default=ReleaseOptions()
    )
    serving: ServingOptions = setting("machines of the endpoint", default=ServingOptions())
    labels: Annotated[dict[str, Any], AfterValidator(check_labels)] = setting(
        "labels of the run and of all it creates", default={}
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        self.prepare.check_absolute()
        self.train_config()
        return self

    @property
    def name(self) -> str:
        """Return the workload's name: of a folder, its name without path and digest."""
        return valid_name(workload_name(self.workload))

    @property
    def is_built_in(self) -> bool:
        """Return whether the workload is one of this repository."""
        return self.workload in BUILT_IN

    def prepare_options(self) -> PrepareOptions:
        """Return the settings of prepare_examples."""
        return PrepareOptions(
            **self.prepare.given(), max_examples=self.max_examples, trust_files=self.trust_files
        )

    def train_config(self) -> TrainConfig:
        """Return the trainer's settings; the examples' folder is known only to the run itself.

        A user's workload is not loaded here: `pipelines.projects.description` checks what depends
        on it, in another process.
        """
        settings: Json = {**self.train.given(), "strategy": self.cluster.strategy}
        return TrainConfig(workload=self.workload, examples_dir="-", **settings)

    def parameters(self) -> Json:
        """Return the pipeline's parameters; structures as JSON, which KFP leaves unchanged.

        Raises:
            ConfigError: a setting needs another one.
        """
        if self.tensorboard and not self.service_account:
            raise ConfigError(
                "tensorboard needs service_account: Vertex AI writes to it as the job's account,"
                " which must have the roles Storage Admin and Vertex AI User"
            )
        if self.report_success and not self.on_failure_url:
            raise ConfigError("report_success needs on_failure_url, the address of the webhook")
        values = self.model_dump(mode="json", exclude={"labels"})
        given = self.given()
        groups = {name: json.dumps(given.get(name, {}), sort_keys=True) for name in JSON_GROUPS}
        return {**values, **groups, "cluster": self.cluster.to_json()}

    @classmethod
    def from_parameters(cls, parameters: Json) -> "RunConfig":
        """Return the run that a package's parameters describe; other parameters are ignored.

        Raises:
            ConfigError: a value is missing or not allowed; names the field.
        """
        if missing := {"workload", "model_name", "endpoint_name"} - set(parameters):
            raise ConfigError(f"the package has no default for {', '.join(sorted(missing))}")
        names = cls.model_fields.keys() - {"labels"}
        known = {name: value for name, value in parameters.items() if name in names}
        for name in {"cluster", *JSON_GROUPS} & set(known):
            known[name] = parse_object(known[name], name=name)
        count = known.get("max_examples")
        if isinstance(count, float) and count.is_integer():  # the compiler writes 0.0
            known["max_examples"] = int(count)
        return cls(**known)
