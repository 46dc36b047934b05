"""Side by side with what a user would run instead; `make bench` runs them all."""

import sys

# What they alone need is there (Makefile), and slows no import down in the processes they start.
sys.path.append(f"{sys.prefix}/bench")
