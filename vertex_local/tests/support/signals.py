"""Signals of processes that tests start."""

# For a process that a test interrupts: where pytest is a background job of a shell, SIGINT is
# ignored, and a program rightly leaves it so.
WITH_DEFAULT_SIGINT = ("env", "--default-signal=INT")
