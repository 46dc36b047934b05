"""Model versions by hand: upload, deployment, rollback, and predictions for files."""
