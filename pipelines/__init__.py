"""The pipeline and the `trainyard` command, which compiles, submits and manages it."""
