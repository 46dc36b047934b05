"""Types of the values of examples."""

FLOAT, INT, TEXT = "float", "int", "text"  # float32, int64, bytes
WORDS = "words"  # bytes, counted by tokens
