"""Python programs that a fork of the warm process can run instead of a new interpreter."""

import builtins
import importlib
import os
import re
import runpy
import sys
import tempfile
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
        runpy._run_module_as_main(self.module)  # type: ignore[attr-defined]

    def _component(self) -> list[str]:
        """Write the component's source to a file, as KFP's script does; return the flag for it."""
        if not self.source:
            return []
        path = Path(tempfile.mkdtemp(prefix="tmp.")) / "ephemeral_component.py"
        path.write_text(self.source)
        os.environ["_KFP_RUNTIME"] = "true"
        return ["--component_module_path", str(path)]
