"""TFRecords that exist already: checked, split and written again."""
