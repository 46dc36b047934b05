"""Python environments of steps: shared ones with the packages that steps ask for, and layers."""
