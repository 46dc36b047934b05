"""What the service uses of this machine: Linux, Docker, networks, ports and files."""
