"""How steps are run: on one replica, on many in step, or asynchronously."""
