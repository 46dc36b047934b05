"""Installation of a KFP step's packages, which is the beginning of its command.

`@dsl.component` compiles to `sh -c SCRIPT sh -ec …`, where SCRIPT runs `pip install` and then
`"$0" "$@"`, the rest of the command.
"""

import re
from dataclasses import dataclass
from functools import cache
from importlib import metadata

# As kfp 2.0 to 2.17 write it: a check for pip, `use_venv=True`, and installations. Others may do
# more than install, or install elsewhere.
SCRIPT = re.compile(
    r"""(?!.*--(?:target|prefix|root)\b)(?:
        \s | &&
        | if\ !\ \[\ -x\ "\$\(command\ -v\ pip\)"\ \];\ then\n\s+python3\ -m\ ensurepip\ .*\nfi\n
        | (?:export\ )?PIP_DISABLE_PIP_VERSION_CHECK=1
        | tmp=\$\(mktemp\ -d\)\npython3\ -m\ venv\ "\$tmp/venv"\ .*\n\.\ "\$tmp/venv/bin/activate"\n
        | python3\ -m\ pip\ install(?:\s+(?:'[^'\n]*'|"[^"$`\\\n]*"|[\w./:@-]+))+
    )+"\$0"\ "\$@"\s*""",
    re.VERBOSE,
)


@dataclass(frozen=True)
class Step:
    """A step's command without the installation, and the script of the installation."""

    command: tuple[str, ...]
    script: str = ""

    @classmethod
    def of(cls, command: list[str]) -> "Step":
        """Parse a command; one that is not in KFP's form is kept whole, without a script.

        A shell runs such a command, and its pip installs into the layer of that step.
        """
        match command:
            case ["sh", "-c" | "-ec", script, program, *arguments] if SCRIPT.fullmatch(script):
                return cls((program, *arguments), script)
        return cls(tuple(command))

    @property
    def has_kfp(self) -> bool:
        """True if it installs the kfp of this service."""
        return f"'{own_kfp()}'" in self.script

    @property
    def needs_packages(self) -> bool:
        """True if it installs anything else; kfp has an installation of its own."""
        return self.script.count("pip install") > self.has_kfp


@cache
def own_kfp() -> str:
    """Return the requirement for the kfp of this service."""
    return f"kfp=={metadata.version('kfp')}"
