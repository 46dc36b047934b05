"""Ends and removes everything of a run but what succeeded and somebody keeps."""
