"""Standard output of a command: closed, full, or unable to encode what is written."""

import argparse
import contextlib
import io
import json
import os
import sys
from collections.abc import Callable

ENCODING_VARIABLE = "PYTHONIOENCODING"


class Output(io.FileIO):
    """Standard output; while `must_last`, it drops what cannot be written."""

    must_last = False

    def write(self, data: object) -> int:
        """Write bytes, or discard them and all later ones."""
        try:
            return super().write(data)  # type: ignore[arg-type]
        except OSError as error:
            discard_output()  # one message is enough
            if not self.must_last:
                raise
            with contextlib.suppress(OSError):
                sys.stderr.write(f"trainyard: the output ends here ({error.strerror})\n")
            return len(memoryview(data))  # type: ignore[arg-type]


def open_output() -> None:
    """Open the standard streams that are closed; replace characters that cannot be encoded."""
    for descriptor in (0, 1, 2):  # a file that is opened later must not take the number
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    if sys.stderr is None:
        sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115  to the end of the process
    if sys.stdout is sys.__stdout__:  # not while a test captures it
        encoding = sys.stdout.encoding if sys.stdout else "utf-8"
        raw = Output(1, "w", closefd=False)
        sys.stdout = io.TextIOWrapper(
            io.BufferedWriter(raw), encoding, "replace", line_buffering=raw.isatty()
        )
    name = os.environ.get(ENCODING_VARIABLE, "")
    if name and ":" not in name:  # also in the processes that this one starts
        os.environ[ENCODING_VARIABLE] = f"{name}:replace"


def keep_running_without_output() -> None:
    """Let the command go on if its output can no longer be written: it follows a run."""
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    if isinstance(raw, Output):
        raw.must_last = True


def add_output(parser: argparse.ArgumentParser) -> None:
    """Add the options of commands whose `arguments.result` is printed by `with_result`."""
    form = parser.add_mutually_exclusive_group()
    form.add_argument(
        "--json", action="store_true", help="print only the result, as JSON; the rest to stderr"
    )
    form.add_argument("--quiet", action="store_true", help="print only the result, in one line")


def with_result(command: Callable[[argparse.Namespace], int], arguments: argparse.Namespace) -> int:
    """Run a command; with --json or --quiet print only `arguments.result`, as JSON or a line."""
    if not (arguments.json or arguments.quiet):
        return command(arguments)
    with (
        open(os.devnull, "w") as nowhere,
        contextlib.redirect_stdout(sys.stderr if arguments.json else nowhere),
    ):
        code = command(arguments)
    if content := getattr(arguments, "result", None):
        facts, line = content
        print(json.dumps(facts, indent=2) if arguments.json else line, flush=True)
    return code


def discard_output() -> None:
    """Write standard output to nowhere from now on."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.close(null)
