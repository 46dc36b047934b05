"""The process that trains: its log and TensorFlow's."""
