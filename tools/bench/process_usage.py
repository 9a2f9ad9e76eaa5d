"""What processes have used until now: CPU time and wake-ups from /proc, bytes and segments of their
TCP sockets from ss."""

import os
import re
import shutil
import subprocess
from dataclasses import dataclass, fields

from netlab import BenchError

SOCKET = re.compile(r"pid=(\d+),.*?\bbytes_sent:(\d+).*?\bdata_segs_out:(\d+)")


@dataclass
class Usage:
    """Sums since the start of a process, or over several processes."""

    main_ms: float = 0  # CPU time of the main thread, which is the network thread of a server
    zmq_ms: float = 0  # of ZeroMQ's threads
    other_ms: float = 0  # of the others: executors, store
    wake_ups: float = 0  # how often a thread was put on a core
    bytes_sent: float = 0  # over TCP, what is sent again included
    segments: float = 0  # TCP segments with data that were sent

    def cpu_ms(self):
        return self.main_ms + self.zmq_ms + self.other_ms

    def __add__(self, other):
        return self._combined(other, lambda a, b: a + b)

    def __sub__(self, other):
        return self._combined(other, lambda a, b: a - b)

    def over(self, count):
        return self._combined(self, lambda a, _: a / count)

    def _combined(self, other, function):
        return Usage(*(function(getattr(self, field.name), getattr(other, field.name))
                       for field in fields(self)))


def check_sockets():
    if shutil.which("ss") is None:
        raise BenchError("ss is missing; apt-get install iproute2", 2)


def usages(pids):
    """The Usage of each running process, by its id. Threads and sockets that are gone do not
    count."""
    found = {pid: Usage() for pid in pids}
    for pid, usage in found.items():
        _add_threads(pid, usage)
    done = subprocess.run(["ss", "-tinpHO"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BenchError(f"ss: {done.stderr.strip()}")
    for line in done.stdout.splitlines():
        match = SOCKET.search(line)
        if match and int(match[1]) in found:
            found[int(match[1])].bytes_sent += int(match[2])
            found[int(match[1])].segments += int(match[3])
    return found


def _add_threads(pid, usage):
    for thread in os.listdir(f"/proc/{pid}/task"):
        path = f"/proc/{pid}/task/{thread}"
        try:
            with open(f"{path}/comm") as comm, open(f"{path}/schedstat") as schedstat:
                name, (run_ns, _, wake_ups) = comm.read(), map(int, schedstat.read().split())
        except (FileNotFoundError, ProcessLookupError):
            continue  # ended since listdir()
        part = ("main_ms" if thread == str(pid) else
                "zmq_ms" if name.startswith("ZMQ") else "other_ms")
        setattr(usage, part, getattr(usage, part) + run_ns / 1e6)
        usage.wake_ups += wake_ups
