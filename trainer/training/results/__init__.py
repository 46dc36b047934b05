"""Results that the chief writes: metrics, evaluations and the exported model."""
