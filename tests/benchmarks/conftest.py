"""Keep the packages of benchmarks from other tests, in which Keras would import all of them."""

import sys

import benchmarks  # noqa: F401  puts them on the path

sys.path.remove(f"{sys.prefix}/bench")
