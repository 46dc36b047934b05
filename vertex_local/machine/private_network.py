"""Private network of a group of processes: a loopback interface of its own, and no other.

TensorFlow's gRPC server has no authentication, runs any graph it receives, and listens on all
interfaces, whatever address TF_CONFIG names. A cluster of replicas is therefore isolated from all
other networks. Linux only; see network_namespaces(7) and user_namespaces(7).
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
    """Move this process, and its later children, into a private network.

    Raises:
        OSError: The system does not allow it.
    """
    linux.unshare(CLONE_NEWNET)
    _bring_up_loopback()


def _bring_up_loopback() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as handle:
        request = struct.pack(INTERFACE_REQUEST, b"lo", 0)
        reply = fcntl.ioctl(handle, SIOCGIFFLAGS, request)
        _, flags = struct.unpack(INTERFACE_REQUEST, reply)
        fcntl.ioctl(handle, SIOCSIFFLAGS, struct.pack(INTERFACE_REQUEST, b"lo", flags | IFF_UP))
