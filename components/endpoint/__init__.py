"""The endpoint, its deployed models and its traffic split."""
