"""Commands of models, endpoints and predictions."""
