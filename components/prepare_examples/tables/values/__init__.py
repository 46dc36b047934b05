"""Values of a table's columns: numbers, times, lists and labels."""
