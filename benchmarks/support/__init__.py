"""Parts that several benchmarks share; no benchmark itself."""
