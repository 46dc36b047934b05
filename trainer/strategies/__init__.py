"""Drivers of the train step: synchronous on the devices of all replicas, or asynchronous.

`run` yields the totals of finished steps, continuing from a checkpoint's `progress`, until the last
step or until the chief has ended training: on all replicas alike. `progress` returns, as JSON, what
a checkpoint must hold besides the snapshot. `should_stop` is True to stop now, to be resumed; it is
the same on every replica.
"""
