"""Preparation of examples: raw data, fetched and verified, to sharded TFRecords."""
