"""Comparisons with the alternatives a user would run; `make bench` runs them all."""

import sys

# Packages that only the benchmarks need (Makefile). They are on no other path, so they do not slow
# down imports in the processes that the benchmarks start.
sys.path.append(f"{sys.prefix}/bench")
