"""A network that only one group of processes sees: a loopback of its own, and nothing else.

TensorFlow's gRPC server has no authentication, runs whatever graph it is sent, and listens on all
interfaces whatever address TF_CONFIG names. A cluster of replicas is therefore cut off from every
other network. Linux only; see network_namespaces(7) and user_namespaces(7).
"""

import fcntl
import socket
import struct

from vertex_local.machine import linux

# <linux/sched.h>
CLONE_NEWNET = 0x40000000
# <linux/sockios.h>, <linux/if.h>
SIOCGIFFLAGS = 0x8913
SIOCSIFFLAGS = 0x8914
IFF_UP = 1
INTERFACE_REQUEST = "16sH14x"


def enter() -> None:
    """Moves this process, and what it starts from now on, into a private network.

    Raises:
        OSError: this system does not allow it.
    """
    linux.unshare(CLONE_NEWNET)
    _bring_up_loopback()


def _bring_up_loopback() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as handle:
        request = struct.pack(INTERFACE_REQUEST, b"lo", 0)
        answer = fcntl.ioctl(handle, SIOCGIFFLAGS, request)
        _, flags = struct.unpack(INTERFACE_REQUEST, answer)
        fcntl.ioctl(handle, SIOCSIFFLAGS, struct.pack(INTERFACE_REQUEST, b"lo", flags | IFF_UP))
