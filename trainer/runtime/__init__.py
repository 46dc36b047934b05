"""The process of a replica: its log, its progress line and TensorFlow's messages."""
