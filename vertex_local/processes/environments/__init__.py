"""Python environments of steps: shared ones with the packages a step requires, and layers."""
