"""A network of machines on this one: a namespace for each, and links with a delay and a rate.

Kernels of small machines lack `netem`, so a process forwards the packets: each machine has a TUN
device, whose packets it holds until they would have arrived. Needs root.

Not a benchmark itself.
"""

import contextlib
import ctypes
import fcntl
import heapq
import itertools
import multiprocessing
import os
import select
import shutil
import signal
import socket
import struct
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

START_TIMEOUT_SECONDS = 30
MTU = 65_000
# Of linux/if_tun.h and linux/prctl.h.
TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
PR_SET_TIMERSLACK, PR_SET_PDEATHSIG = 29, 1
DESTINATION = slice(16, 20)  # of an IPv4 packet


@dataclass(frozen=True)
class Link:
    """A machine's link to the switch: a one-way delay between two machines, and a rate each way."""

    delay_seconds: float
    bits_per_second: float


@dataclass(frozen=True)
class Machine:
    """A machine of the network: its address, and the namespace in which its processes run."""

    address: str
    namespace: str

    def command(self, command: Sequence[str]) -> list[str]:
        """Return the command that runs on this machine."""
        return ["ip", "netns", "exec", self.namespace, *command]


def missing() -> str:
    """Return what this machine lacks for a network; "" if nothing."""
    if os.geteuid() != 0:
        return "namespaces of networks need root"
    if not shutil.which("ip"):
        return "there is no command `ip`; install the package iproute2"
    return "" if os.path.exists("/dev/net/tun") else "the kernel has no TUN devices"


@contextlib.contextmanager
def network(names: Sequence[str], link: Link) -> Iterator[Mapping[str, Machine]]:
    """Create a machine for each name, all on one switch; remove them at the end."""
    with contextlib.ExitStack() as stack:
        machines, devices = {}, {}
        for number, name in enumerate(names, start=1):
            machine = Machine(f"10.77.0.{number}", f"trainyard-{os.getpid()}-{number}")
            machines[name] = machine
            devices[machine.address] = _connect(stack, machine, f"ty{os.getpid()}-{number}")
        switch = multiprocessing.get_context("fork").Process(target=_switch, args=(devices, link))
        switch.start()
        stack.callback(switch.join, START_TIMEOUT_SECONDS)
        stack.callback(switch.kill)
        yield machines


def _connect(stack: contextlib.ExitStack, machine: Machine, device: str) -> int:
    """Create the machine with a TUN device as its only network; return the device's file."""
    _run("ip", "netns", "add", machine.namespace)
    stack.callback(_run, "ip", "netns", "delete", machine.namespace)
    file = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    stack.callback(os.close, file)
    fcntl.ioctl(file, TUNSETIFF, struct.pack("16sH22x", device.encode(), IFF_TUN | IFF_NO_PI))
    _run("ip", "link", "set", device, "netns", machine.namespace)
    for command in (
        ("ip", "address", "add", f"{machine.address}/24", "dev", device),
        ("ip", "link", "set", device, "mtu", str(MTU), "txqueuelen", "10000", "up"),
        ("ip", "link", "set", "lo", "up"),
    ):
        _run(*machine.command(command))
    return file


def _run(*command: str) -> None:
    subprocess.run(command, check=True, timeout=START_TIMEOUT_SECONDS)


def _switch(devices: Mapping[str, int], link: Link) -> None:
    """Forward packets until this process is killed, or its parent dies."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    libc = ctypes.CDLL(None)
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    libc.prctl(PR_SET_TIMERSLACK, 1000)  # nanoseconds, instead of 50 µs
    outputs = {socket.inet_aton(address): file for address, file in devices.items()}
    files = list(devices.values())
    sent_until = dict.fromkeys(files, 0.0)
    received_until = dict.fromkeys(files, 0.0)
    waiting: list[tuple[float, int, int, bytes]] = []
    numbers = itertools.count()
    while True:
        now = time.perf_counter()
        while waiting and waiting[0][0] <= now:
            _, _, file, packet = heapq.heappop(waiting)
            _write(file, packet)
        timeout = max(waiting[0][0] - time.perf_counter(), 0) if waiting else None
        for source in select.select(files, [], [], timeout)[0]:
            packet = os.read(source, MTU)
            target = outputs.get(packet[DESTINATION])
            if target is None:
                continue  # IPv6, or to everybody
            seconds = 8 * len(packet) / link.bits_per_second
            sent_until[source] = max(time.perf_counter(), sent_until[source]) + seconds
            # The receiver's link is taken while the packet arrives, not before.
            arrived = max(sent_until[source] + link.delay_seconds, received_until[target] + seconds)
            received_until[target] = arrived
            heapq.heappush(waiting, (arrived, next(numbers), target, packet))


def _write(file: int, packet: bytes) -> None:
    with contextlib.suppress(BlockingIOError):  # a full queue: the packet is lost
        os.write(file, packet)
