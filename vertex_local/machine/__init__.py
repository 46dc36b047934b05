"""Interfaces to this machine: Linux, Docker, networks, ports, files and time."""
