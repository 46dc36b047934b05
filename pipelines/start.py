"""Entry point of `trainyard`: Ctrl-C gives no traceback while the command is being imported."""

import signal


def main() -> int:
    """Import the command and run it; return its exit code."""
    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:  # not ignored, as in a shell's background job
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from pipelines import cli

    signal.signal(signal.SIGINT, before)
    return cli.main()
