"""Preparation of a Google Cloud project for runs, as gcloud commands."""

import re
import shlex
import subprocess
from collections.abc import Callable
from dataclasses import dataclass

from trainer.errors import ConfigError

SERVICES = (
    "aiplatform.googleapis.com",
    "artifactregistry.googleapis.com",
    "bigquery.googleapis.com",
    "compute.googleapis.com",
    "iam.googleapis.com",
    "logging.googleapis.com",
    "storage.googleapis.com",
)
# Roles of the runs' account in the project; its role for the bucket is granted separately.
PROJECT_ROLES = (
    "roles/aiplatform.user",  # jobs, models, endpoints, pipelines
    "roles/artifactregistry.reader",  # the image and the packages
    "roles/logging.logWriter",
    "roles/bigquery.jobUser",  # the taxi table, if it is read from BigQuery
)
BUCKET_ROLE = "roles/storage.admin"
ACT_AS_ROLE = "roles/iam.serviceAccountUser"

FORMS = {
    "project": (r"[a-z][a-z0-9-]{4,28}[a-z0-9]", "the project's id, such as my-project"),
    "location": (r"[a-z]+-[a-z]+\d+", "a region, such as us-central1"),
    "bucket": (r"[a-z0-9][a-z0-9_.-]{1,61}[a-z0-9]", "a bucket's name without gs://"),
    "account": (r"[a-z][a-z0-9-]{4,28}[a-z0-9]", "a name of 6 to 30 of a-z, 0-9 and '-'"),
    "images": (r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?", "a repository's name"),
    "packages": (r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?", "a repository's name"),
    "member": (r"(user|group|serviceAccount):[^@\s]+@[^@\s]+", "user:NAME@DOMAIN, or empty"),
}
OPTIONAL = ("member",)
RUN_TIMEOUT_SECONDS = 600

Argv = tuple[str, ...]


class SetupError(Exception):
    """A command failed or gcloud is missing."""


@dataclass(frozen=True, kw_only=True)
class Setup:
    """Names of the resources to create; `member` may start runs as the account."""

    project: str
    bucket: str
    location: str = "us-central1"
    account: str = "trainyard"
    images: str = "trainyard"
    packages: str = "trainyard-pipelines"
    member: str = ""

    def __post_init__(self) -> None:
        for name, (pattern, form) in FORMS.items():
            value = getattr(self, name)
            if not re.fullmatch(pattern, value) and (value or name not in OPTIONAL):
                raise ConfigError(f"--{name} is {value!r}; it must be {form}")

    @property
    def email(self) -> str:
        """Return the account's e-mail address."""
        return f"{self.account}@{self.project}.iam.gserviceaccount.com"


@dataclass(frozen=True, kw_only=True)
class Step:
    """A command, skipped if the command `unless` succeeds: then the resource exists."""

    why: str
    command: Argv
    unless: Argv = ()


def steps_of(setup: Setup) -> list[Step]:
    """Return the commands in order; all can be repeated."""
    return [_services(setup), _bucket(setup), *_repositories(setup), *_account(setup)]


def environment_of(setup: Setup) -> dict[str, str]:
    """Return the variables that commands with `--on vertex` read."""
    return {
        "GOOGLE_CLOUD_PROJECT": setup.project,
        "GOOGLE_CLOUD_REGION": setup.location,
        "TRAINYARD_PIPELINE_ROOT": f"gs://{setup.bucket}/runs",
    }


def run_steps(steps: list[Step], *, report: Callable[[str], None]) -> None:
    """Run the commands in order.

    Raises:
        SetupError: a command failed, or gcloud is missing; earlier commands have been run.
    """
    for step in steps:
        if step.unless and _run(step.unless).returncode == 0:
            report(f"exists already: {step.why}")
            continue
        report(f"{step.why}\n  {shlex.join(step.command)}")
        done = _run(step.command)
        if done.returncode:
            raise SetupError(f"{shlex.join(step.command)} failed: {done.stderr.strip()[-1000:]}")


def _services(setup: Setup) -> Step:
    command = _gcloud(setup, "services", "enable", *SERVICES)
    return Step(why="enable the APIs", command=command)


def _bucket(setup: Setup) -> Step:
    address = f"gs://{setup.bucket}"
    create = ("storage", "buckets", "create", address, f"--location={setup.location}")
    return Step(
        why="create the bucket for the runs' files, in the region of the runs",
        command=_gcloud(setup, *create, "--uniform-bucket-level-access"),
        unless=_gcloud(setup, "storage", "buckets", "describe", address),
    )


def _repositories(setup: Setup) -> list[Step]:
    group, location = ("artifacts", "repositories"), f"--location={setup.location}"
    kinds = ((setup.images, "docker", "images"), (setup.packages, "kfp", "packages"))
    return [
        Step(
            why=f"create the repository for {content}",
            command=_gcloud(
                setup, *group, "create", name, f"--repository-format={format_}", location
            ),
            unless=_gcloud(setup, *group, "describe", name, location),
        )
        for name, format_, content in kinds
    ]


def _account(setup: Setup) -> list[Step]:
    accounts, me = ("iam", "service-accounts"), f"--member=serviceAccount:{setup.email}"
    create = _gcloud(setup, *accounts, "create", setup.account, "--display-name=Trainyard runs")
    bind = "add-iam-policy-binding"
    roles = [
        Step(
            why=f"grant {role} to the account",
            command=_gcloud(
                setup, "projects", bind, setup.project, me, f"--role={role}", "--condition=None"
            ),
        )
        for role in PROJECT_ROLES
    ]
    bucket = ("storage", "buckets", bind, f"gs://{setup.bucket}", me, f"--role={BUCKET_ROLE}")
    members = [f"serviceAccount:{setup.email}", *([setup.member] if setup.member else [])]
    act_as = [
        Step(
            why=f"allow {member} to start jobs as the account",
            command=_gcloud(
                *(setup, *accounts, bind, setup.email),
                *(f"--member={member}", f"--role={ACT_AS_ROLE}"),
            ),
        )
        for member in members
    ]
    return [
        Step(
            why="create the service account of the runs",
            command=create,
            unless=_gcloud(setup, *accounts, "describe", setup.email),
        ),
        *roles,
        Step(why="grant the bucket to the account", command=_gcloud(setup, *bucket)),
        *act_as,
    ]


def _gcloud(setup: Setup, *words: str) -> Argv:
    return ("gcloud", *words, f"--project={setup.project}", "--quiet")


def _run(command: Argv) -> "subprocess.CompletedProcess[str]":
    try:
        return subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=RUN_TIMEOUT_SECONDS
        )
    except FileNotFoundError as error:
        raise SetupError(
            "gcloud is not installed: see https://cloud.google.com/sdk/docs/install, then run "
            "`gcloud auth login`; or paste the commands into Cloud Shell"
        ) from error
    except subprocess.TimeoutExpired as error:
        raise SetupError(
            f"{shlex.join(command)} did not finish within {RUN_TIMEOUT_SECONDS} s"
        ) from error
