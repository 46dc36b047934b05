"""Python programs that a fork of the warm process can run instead of a new interpreter."""

import builtins
import importlib
import os
import re
import runpy
import site
import sys
import sysconfig
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

# The script with which KFP starts a component made of a function; its source is $0 of the shell.
KFP_SCRIPT = re.compile(
    r"program_path=\$\(mktemp -d\)\s+"
    r'printf "%s" "\$0" > "\$program_path/ephemeral_component\.py"\s+'
    r"_KFP_RUNTIME=true python3 -m kfp\.dsl\.executor_main\s+"
    r'--component_module_path\s+"\$program_path/ephemeral_component\.py"\s+"\$@"\s*'
)
KFP_MODULE = "kfp.dsl.executor_main"
PYTHON_NAMES = ("python", "python3")
# Read when a module is imported, or when the interpreter starts.
READ_AT_IMPORT = (
    "ABSL_ CUDA_ GLIBC_ GOMP_ GRPC_ HOME JAX_ KERAS_ KMP_ LANG LC_ LD_ MALLOC_ MKL_ NPY_ NUMEXPR_ "
    "NVIDIA_ OMP_ OPENBLAS_ PROTOCOL_BUFFERS_ PYTHON TF_ TORCH_ XLA_"
)
# Exceptions: TensorFlow reads these when it is first used, and pip reads the last, of a layer.
READ_LATER = {"TF_CONFIG", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS", "PYTHONUSERBASE"}


@dataclass(frozen=True)
class Program:
    """`python -m MODULE ARGUMENTS`; `source` is the code of a KFP component, or empty."""

    module: str
    arguments: tuple[str, ...]
    source: str = ""

    @classmethod
    def of(cls, command: list[str]) -> "Program | None":
        """Return the program of a command; None if it is not a module on this interpreter."""
        match command:
            case [python, "-m", module, *arguments] if python in (*PYTHON_NAMES, sys.executable):
                return cls(module, tuple(arguments))
            case ["sh", "-ec", script, source, *arguments] if KFP_SCRIPT.fullmatch(script):
                return cls(KFP_MODULE, tuple(arguments), source)
        return None

    def run(self) -> None:
        """Run the program in this process as `__main__`; may raise SystemExit or any error."""
        arguments = [*self._component(), *self.arguments]
        sys.argv = ["-m", *arguments]
        sys.orig_argv = [sys.executable, "-m", self.module, *arguments]
        if not sys.flags.safe_path:
            sys.path.insert(0, os.getcwd())
        importlib.invalidate_caches()
        main = ModuleType("__main__")
        main.__dict__.update(__builtins__=builtins, __annotations__={})
        sys.modules["__main__"] = main
        try:
            runpy._run_module_as_main(self.module)  # type: ignore[attr-defined]
        except SystemExit:
            raise
        except BaseException as error:
            _print_without_our_frames(error)
            raise

    def _component(self) -> list[str]:
        """Write the component's source to a file, as KFP's script does; return the flag for it."""
        if not self.source:
            return []
        path = Path(tempfile.mkdtemp(prefix="tmp.")) / "ephemeral_component.py"
        path.write_text(self.source)
        os.environ["_KFP_RUNTIME"] = "true"
        return ["--component_module_path", str(path)]


@dataclass(frozen=True)
class Preloaded:
    """Modules that a warm process has imported, with the environment they were imported in.

    Attributes:
        env: The environment.
        signatures: Time and size of each module's file, but of an installed package only
            its folder's, which an installation changes: to look at thousands of files takes long.
        names: Names of the modules and packages.
    """

    env: dict[str, str]
    signatures: dict[str, tuple[int, int]]
    names: frozenset[str]

    @classmethod
    def capture(cls) -> "Preloaded":
        """Return the modules and the environment of this process."""
        packages = site.getsitepackages()
        installed = tuple(f"{folder}/" for folder in (*packages, sysconfig.get_path("stdlib")))
        paths = [getattr(module, "__file__", None) or "" for module in list(sys.modules.values())]
        watched = [*packages, *(path for path in paths if not path.startswith(installed))]
        names = {name.partition(".")[0] for name in sys.modules}
        return cls(dict(os.environ), _signatures(watched), frozenset(names))

    @property
    def is_current(self) -> bool:
        """True if the files of the modules have not changed."""
        return _signatures(self.signatures) == self.signatures

    def can_run(self, env: dict[str, str], cwd: str | None) -> bool:
        """Return whether a new interpreter with this environment and folder imports the same."""
        starts = tuple(READ_AT_IMPORT.split())
        names = {name for name in self.env.keys() | env.keys() if name.startswith(starts)}
        if any(self.env.get(name) != env.get(name) for name in names - READ_LATER):
            return False
        try:
            entries = list(os.scandir(os.path.abspath(cwd or os.getcwd())))
        except OSError:
            return False
        return not any(
            _shadows(entry) for entry in entries if entry.name.partition(".")[0] in self.names
        )


def _signatures(paths: Iterable[str]) -> dict[str, tuple[int, int]]:
    signatures = {}
    for path in paths:
        with suppress(OSError):
            status = os.stat(path)
            signatures[path] = (status.st_mtime_ns, status.st_size)
    return signatures


# Set in a warm process, and so in its forks.
PRELOADED: Preloaded | None = None


def _shadows(entry: "os.DirEntry[str]") -> bool:
    """Return whether a new interpreter in this folder would import this file instead."""
    name, _, ending = entry.name.partition(".")
    if ending:
        is_module = ending.endswith(("py", "pyc", "so"))
    else:
        is_module = os.path.exists(os.path.join(entry.path, "__init__.py"))
    path = getattr(sys.modules.get(name), "__file__", None) or ""
    return is_module and not path.startswith(entry.path)


def _print_without_our_frames(error: BaseException) -> None:
    """Print a traceback as a new interpreter does, and have the interpreter print no other."""
    traceback = error.__traceback__
    while traceback and "<frozen runpy>" not in traceback.tb_frame.f_code.co_filename:
        traceback = traceback.tb_next
    error.__traceback__ = traceback
    sys.excepthook(type(error), error, traceback)
    sys.excepthook = lambda *_: None
