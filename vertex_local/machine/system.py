"""The operating system's control of processes: Linux's own, or the portable one.

Other modules import this one, so that no other names an interface that only Linux has, except those
of the warm process (`processes/warm*.py`, `forking.py`), which runs on Linux only.
"""

# ruff: noqa: F401
# mypy: implicit-reexport

import os
import sys

PORTABLE_VARIABLE = "TRAINYARD_PORTABLE"
IS_PORTABLE = sys.platform != "linux" or os.environ.get(PORTABLE_VARIABLE) == "1"

if sys.platform != "linux" or IS_PORTABLE:
    from vertex_local.machine.portable import (
        become_subreaper,
        bind,
        contain,
        die_with_parent,
        end_adopted_group,
        end_orphans,
        enter_private_network,
        kill_all_children,
        make_read_only,
        num_cores,
        reap_next,
        yield_cores,
    )
else:
    from vertex_local.machine.linux import (
        become_subreaper,
        bind,
        die_with_parent,
        end_adopted_group,
        end_orphans,
        kill_all_children,
        make_read_only,
        num_cores,
        reap_next,
        yield_cores,
    )
    from vertex_local.machine.namespaces import contain, enter_private_network
