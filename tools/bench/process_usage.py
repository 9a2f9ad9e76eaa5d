"""What processes have used until now: CPU time and wake-ups from /proc, bytes and segments of their
TCP sockets from ss."""

import os
import re
import shutil
import subprocess
from dataclasses import dataclass, fields

from netlab import BenchError

SOCKET = re.compile(r"^\S+ +\d+ +\d+ +(?P<ends>\S+ +\S+) .*?\bpid=(?P<pid>\d+),"
                    r".*?\bbytes_sent:(?P<sent>\d+).*?\bdata_segs_out:(?P<segments>\d+)", re.M)


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


class UsageMeter:
    """Reads the usage of processes again and again. A thread or socket that has ended counts with
    what it had used when it was seen last."""

    def __init__(self, pids):
        self._parts = {pid: {} for pid in pids}  # Usage of each thread and socket

    def read(self):
        """The Usage of each process by its id."""
        for pid, parts in self._parts.items():
            parts.update(_threads(pid))
        for pid, socket, usage in _sockets():
            if pid in self._parts:
                self._parts[pid][socket] = usage
        return {pid: sum(parts.values(), Usage()) for pid, parts in self._parts.items()}


def _threads(pid):
    """Usage by thread; {} for a process that has ended."""
    found = {}
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            path = f"/proc/{pid}/task/{thread}"
            with open(f"{path}/comm") as comm, open(f"{path}/schedstat") as schedstat:
                name, (run_ns, _, wake_ups) = comm.read(), map(int, schedstat.read().split())
            part = ("main_ms" if thread == str(pid) else
                    "zmq_ms" if name.startswith("ZMQ") else "other_ms")
            found[thread] = Usage(**{part: run_ns / 1e6}, wake_ups=wake_ups)
    except (FileNotFoundError, ProcessLookupError):
        pass  # it ends
    return found


def _sockets():
    """(process id, name, Usage) of each TCP socket of this machine."""
    done = subprocess.run(["ss", "-tinpHO"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BenchError(f"ss: {done.stderr.strip()}")
    for match in SOCKET.finditer(done.stdout):
        sent, segments = int(match["sent"]), int(match["segments"])
        yield int(match["pid"]), match["ends"], Usage(bytes_sent=sent, segments=segments)
