"""HTTP as clients may send it: bodies and requests that are refused."""
