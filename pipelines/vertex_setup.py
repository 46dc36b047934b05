"""What a Google Cloud project needs before the first run, as gcloud commands."""

import re
import shlex
import subprocess
from collections.abc import Callable
from dataclasses import dataclass

from trainer.config.settings import ConfigError

SERVICES = (
    "aiplatform.googleapis.com",
    "artifactregistry.googleapis.com",
    "bigquery.googleapis.com",
    "compute.googleapis.com",
    "iam.googleapis.com",
    "logging.googleapis.com",
    "storage.googleapis.com",
)
# What the account of the runs may do in the project; the bucket is granted by itself.
PROJECT_ROLES = (
    "roles/aiplatform.user",  # jobs, models, endpoints, pipelines
    "roles/artifactregistry.reader",  # the image and the packages
    "roles/logging.logWriter",
    "roles/bigquery.jobUser",  # the taxi table, if it is read from BigQuery
)
BUCKET_ROLE = "roles/storage.admin"
ACT_AS_ROLE = "roles/iam.serviceAccountUser"

FORMS = {
    "project": (r"[a-z][a-z0-9-]{4,28}[a-z0-9]", "the project's id, as my-project"),
    "location": (r"[a-z]+-[a-z]+\d+", "a region, as us-central1"),
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
    """A command failed; the message says which, and what it wrote."""


@dataclass(frozen=True, kw_only=True)
class Setup:
    """The names of what is made; `member` is who may start runs as the account."""

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
        """The account's e-mail address."""
        return f"{self.account}@{self.project}.iam.gserviceaccount.com"


@dataclass(frozen=True, kw_only=True)
class Step:
    """A command; where `unless` succeeds, what it would make is there already."""

    why: str
    command: Argv
    unless: Argv = ()


def steps_of(setup: Setup) -> list[Step]:
    """The commands in order; each may be repeated."""
    return [_services(setup), _bucket(setup), *_repositories(setup), *_account(setup)]


def environment_of(setup: Setup) -> dict[str, str]:
    """The variables that the commands with `--on vertex` read."""
    return {
        "GOOGLE_CLOUD_PROJECT": setup.project,
        "GOOGLE_CLOUD_REGION": setup.location,
        "TRAINYARD_PIPELINE_ROOT": f"gs://{setup.bucket}/runs",
    }


def run_steps(steps: list[Step], *, say: Callable[[str], None]) -> None:
    """Carries the commands out, one after the other.

    Raises:
        SetupError: one failed, or gcloud is missing; what came before it is done.
    """
    for step in steps:
        if step.unless and _run(step.unless).returncode == 0:
            say(f"there already: {step.why}")
            continue
        say(f"{step.why}\n  {shlex.join(step.command)}")
        done = _run(step.command)
        if done.returncode:
            raise SetupError(f"{shlex.join(step.command)} failed: {done.stderr.strip()[-1000:]}")


def _services(setup: Setup) -> Step:
    command = _gcloud(setup, "services", "enable", *SERVICES)
    return Step(why="switch on the APIs", command=command)


def _bucket(setup: Setup) -> Step:
    address = f"gs://{setup.bucket}"
    create = ("storage", "buckets", "create", address, f"--location={setup.location}")
    return Step(
        why="the bucket of the runs' files, in the region of the runs",
        command=_gcloud(setup, *create, "--uniform-bucket-level-access"),
        unless=_gcloud(setup, "storage", "buckets", "describe", address),
    )


def _repositories(setup: Setup) -> list[Step]:
    group, where = ("artifacts", "repositories"), f"--location={setup.location}"
    kinds = ((setup.images, "docker", "the image"), (setup.packages, "kfp", "the packages"))
    return [
        Step(
            why=f"the repository of {what}",
            command=_gcloud(setup, *group, "create", name, f"--repository-format={format_}", where),
            unless=_gcloud(setup, *group, "describe", name, where),
        )
        for name, format_, what in kinds
    ]


def _account(setup: Setup) -> list[Step]:
    accounts, me = ("iam", "service-accounts"), f"--member=serviceAccount:{setup.email}"
    create = _gcloud(setup, *accounts, "create", setup.account, "--display-name=Trainyard runs")
    bind = "add-iam-policy-binding"
    roles = [
        Step(
            why=f"let the account be {role}",
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
            why=f"let {member} start jobs as the account",
            command=_gcloud(
                *(setup, *accounts, bind, setup.email),
                *(f"--member={member}", f"--role={ACT_AS_ROLE}"),
            ),
        )
        for member in members
    ]
    return [
        Step(
            why="the account that runs run as",
            command=create,
            unless=_gcloud(setup, *accounts, "describe", setup.email),
        ),
        *roles,
        Step(why="let the account use the bucket", command=_gcloud(setup, *bucket)),
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
            "gcloud is not installed: https://cloud.google.com/sdk/docs/install, then "
            "`gcloud auth login`; or paste the commands into Cloud Shell"
        ) from error
    except subprocess.TimeoutExpired as error:
        raise SetupError(
            f"{shlex.join(command)} has not ended after {RUN_TIMEOUT_SECONDS} s"
        ) from error
