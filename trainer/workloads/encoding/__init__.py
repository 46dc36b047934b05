"""Encoding of declared features and labels in the graph, and what it learns."""
