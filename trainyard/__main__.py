"""The command `trainyard`: Ctrl-C gives no traceback while it is being imported."""

import signal
import sys

from trainyard import resolution


def main() -> int:
    """Import the command and run it; return its exit code."""
    if sys.argv[1:2] == ["--complete"]:  # a shell waits
        from pipelines.command import completion

        return completion.main(*sys.argv[2:])
    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:  # not ignored, as in a shell's background job
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from pipelines import cli

    signal.signal(signal.SIGINT, before)
    with resolution.for_children():
        return cli.main()


if __name__ == "__main__":
    sys.exit(main())
