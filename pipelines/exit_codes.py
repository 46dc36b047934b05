"""Exit codes of the `trainyard` command."""

OK = 0
FAILED = 1
USAGE = 2
GATED = 3
TIMEOUT = 124  # as timeout(1)
INTERRUPTED = 130  # 128 + SIGINT, as a shell reports it

MEANINGS = {
    OK: "succeeded",
    FAILED: "failed or cancelled",
    USAGE: "bad usage",
    GATED: "the metrics did not pass",
    TIMEOUT: "timeout",
    INTERRUPTED: "interrupted",
}


def exit_codes_text(*codes: int) -> str:
    """Return the line of a help text that lists a command's exit codes."""
    return f"exit codes: {', '.join(f'{code} {MEANINGS[code]}' for code in codes)}"
