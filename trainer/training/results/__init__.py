"""Results that the chief writes: metrics, evaluations, profiles and the exported model."""
