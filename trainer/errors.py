"""Errors whose messages are shown to the user, and suggestions for them."""

import difflib
import re
import signal
from collections.abc import Iterable
from pathlib import Path

# Exit code of a replica if the job only needs to be started again. A process ended by SIGTERM has
# the same, which Kubernetes' training operators treat as a reason to restart, too.
EXIT_RESTART = 128 + signal.SIGTERM

_KERAS_NOISE = re.compile(r"Exception encountered when calling .*|\x1b\[\d*m")
_GRAPH_NOISE = re.compile(
    r"Graph execution error:|Detected at node .*|^ *File \".*|<stack traces unavailable>"
    r"|Name: <unknown>, |\{\{[^}]*\}\} ?|\[\[\]\]| ?\[Op:\w+\].*"
)


class TrainerError(Exception):
    """The job cannot continue; the message says why and what to do."""

    exit_code = 1


class ConfigError(TrainerError, ValueError):
    """Settings that are not allowed; each problem has a name, the value and what is allowed."""

    exit_code = 2

    def __init__(self, *problems: str):
        super().__init__("\n".join(problems))
        self.problems = problems


class ClusterError(ConfigError):
    """A cluster that cannot train."""


class InputError(TrainerError):
    """The examples folder is incomplete, damaged or does not fit the workload."""


class TextError(InputError):
    """A text of an example that is not UTF-8."""

    def __init__(self, feature: str, value: bytes):
        super().__init__(
            f"{feature} is {value!r:.60}, which is not UTF-8 text; prepare the examples again"
        )
        self.feature, self.value = feature, value


class InstanceError(ValueError):
    """An invalid prediction instance; the message has its index."""


class ReplicaLostError(TrainerError):
    """Another replica of the job has ended or is unreachable."""

    exit_code = EXIT_RESTART


class DivergedError(TrainerError):
    """The loss is infinite, not a number, or far larger than at the start."""


class Preempted(TrainerError):  # noqa: N818 - not a failure: the job was asked to stop
    """The job was stopped by SIGTERM and has saved its state."""

    exit_code = EXIT_RESTART


def first_line(error: Exception) -> str:
    """Return an error of TensorFlow or Keras as one line, without names of graph nodes."""
    return telling_lines(error)[0]


def telling_lines(error: Exception) -> list[str]:
    """Return the lines of an error that say something; the name of its class if none does.

    TensorFlow's message has the record; if that is not UTF-8, the error becomes another one.
    """
    if isinstance(error, UnicodeDecodeError):
        return ["it cannot be parsed"]
    text = _KERAS_NOISE.sub("", str(error).partition("Arguments received by ")[0])
    lines = [_GRAPH_NOISE.sub("", line).strip() for line in text.splitlines()]
    return list(filter(None, lines)) or [type(error).__name__]


def did_you_mean(value: object, allowed: Iterable[str], *, separator: str = "") -> str:
    """Return ` did you mean 'workers'?` for the allowed name nearest to `value`, or "".

    With a separator the last parts of names are compared, and all near ones are named: of
    `epochs`, ` did you mean 'train.epochs'?`.
    """
    if not isinstance(value, str):
        return ""
    near = _near_names(value, allowed, separator=separator)
    shown = " or ".join(map(repr, near if separator else near[-1:]))
    return f" did you mean {shown}?" if near else ""


def near_path(path: str | Path) -> str:
    """Return `; did you mean 'configs/x.yaml'?` for a missing path; "" if none is near."""
    written = Path(path)
    found = Path(written.anchor)
    for part in written.relative_to(found).parts:
        near = [part]
        if not (found / part).exists():
            names = [each.name for each in found.iterdir()] if found.is_dir() else []
            near = _near_names(part, names)
        if not near:
            return ""
        found /= near[-1]
    return f"; did you mean {str(found)!r}?" if found != written else ""


def _near_names(value: str, allowed: Iterable[str], *, separator: str = "") -> list[str]:
    names: dict[str, list[str]] = {}
    for name in allowed:
        names.setdefault(_normalize(name, separator), []).append(name)
    # 0.65: two of three letters in order, as in `rnu`.
    close = difflib.get_close_matches(
        _normalize(value, separator), names, n=2 if separator else 1, cutoff=0.65
    )
    return [name for part in close for name in names[part]]


def _normalize(name: str, separator: str) -> str:
    last = name.rpartition(separator)[2] if separator else name
    return last.lower().replace("_", "").replace("-", "")
