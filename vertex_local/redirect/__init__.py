"""The folder that `vertex-local exec` puts on PYTHONPATH."""
