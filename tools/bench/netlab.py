"""Hosts of a network on this machine: namespaces, shaped links, CPU quotas, their processes."""

import atexit
import contextlib
import ctypes
import os
import re
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass

BUFFER_S = 0.05  # of a link, as time at its rate
MIN_BUFFER_BYTES = 64 * 1024
BURST_S = 0.001
MIN_BURST_BYTES = 3200  # two packets of the MTU
QUOTA_PERIOD_US = 5000  # short: a throttled process waits no longer than a packet would
MIN_QUOTA_US = 1000  # the kernel's
CPU_CGROUP = "/sys/fs/cgroup/cpu"
NETWORK_NAMESPACE = 0x40000000  # CLONE_NEWNET
DEVICE = "eth0"
LIBC = ctypes.CDLL(None, use_errno=True)


class BenchError(Exception):
    """Told to the user in one line; the process ends with this exit code."""

    def __init__(self, message, exit_code=1):
        super().__init__(message)
        self.exit_code = exit_code


@dataclass(frozen=True)
class Link:
    """Rate of a host's uplink and of its downlink, and the one-way delay from host to host."""

    name: str
    bits_per_s: float | None  # None: as fast as the machine
    delay_ms: float

    @classmethod
    def parse(cls, text):
        if text == "unshaped":
            return cls(text, None, 0.0)
        match = re.fullmatch(r"([\d.]+)([kmg])bit/([\d.]+)ms", text)
        try:
            rate = float(match[1]) * {"k": 1e3, "m": 1e6, "g": 1e9}[match[2]]
            link = cls(text, rate, float(match[3]))
            if not (1e5 <= rate <= 1e11 and link.delay_ms <= 10000):
                raise ValueError
            return link
        except (TypeError, ValueError):
            raise BenchError(f"link {text}: expected 'unshaped' or RATE/DELAY such as "
                             "100mbit/5ms, at least 100kbit, at most 100gbit and 10000ms", 2)


@dataclass(frozen=True)
class Host:
    name: str
    link: Link
    quota: float = 0.0  # cores; 0: unlimited


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        reason = (done.stderr or done.stdout).strip().splitlines() or ["no output"]
        raise BenchError(f"'{' '.join(command)}' failed: {reason[0]}")


def check_machine(quotas):
    """What the network needs of this machine; `quotas`: CPU quotas, too."""
    if os.geteuid() != 0:
        raise BenchError("needs root (it creates network namespaces); run it with sudo", 2)
    for program, package in (("ip", "iproute2"), ("tc", "iproute2"), ("nsenter", "util-linux")):
        if shutil.which(program) is None:
            raise BenchError(f"{program} is missing; apt-get install {package}", 2)
    if not os.path.exists("/dev/net/tun"):
        raise BenchError("/dev/net/tun is missing; the kernel needs CONFIG_TUN", 2)
    if quotas and not os.access(f"{CPU_CGROUP}/cpu.cfs_quota_us", os.W_OK):
        raise BenchError(f"{CPU_CGROUP}: no writable cgroup v1 CPU controller for the hosts' "
                         "quotas; mount it, or measure without by --quota 0 --dense-quota 0", 2)


@contextlib.contextmanager
def inside(namespace):
    """The calling thread is in the network namespace: sockets it makes stay there."""
    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    there = os.open(f"/var/run/netns/{namespace}", os.O_RDONLY)
    try:
        enter(there)
        yield
    finally:
        enter(home)
        os.close(there)
        os.close(home)


def enter(namespace_fd):
    if LIBC.setns(namespace_fd, NETWORK_NAMESPACE) != 0:
        raise BenchError(f"cannot enter a network namespace: {os.strerror(ctypes.get_errno())}")


class Process:
    """A program on a host. Its output goes to a file."""

    def __init__(self, title, command, log, cgroup=None):
        def in_child():
            LIBC.prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: it ends with this script
            if cgroup is not None:
                with open(f"{cgroup}/cgroup.procs", "w") as members:
                    members.write("0")

        self.title = title
        self.log = log
        with open(log, "w") as output:
            self.popen = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output,
                                          stderr=output, start_new_session=True,
                                          preexec_fn=in_child)

    def output(self):
        with open(self.log, errors="replace") as log:
            return log.read()

    def running(self):
        return self.popen.poll() is None

    def check_running(self):
        if not self.running():
            self.fail(f"ended early (exit code {self.popen.returncode})")

    def fail(self, how):
        lines = [line for line in self.output().splitlines() if line.strip()] or ["no output"]
        raise BenchError(f"{self.title} {how}; its last line: {lines[-1]}")

    def wait(self, deadline_s):
        """Until it has ended, which must be with exit code 0."""
        try:
            self.popen.wait(deadline_s)
        except subprocess.TimeoutExpired:
            self.fail(f"has not ended in {deadline_s} s")
        if self.popen.returncode != 0:
            self.fail(f"failed (exit code {self.popen.returncode})")

    def cpu_seconds(self):
        with open(f"/proc/{self.popen.pid}/stat") as stat:
            fields = stat.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def signal(self, number):
        if self.running():
            self.popen.send_signal(number)

    def end(self, number, deadline_s=10):
        self.signal(number)
        try:
            self.popen.wait(deadline_s)
        except subprocess.TimeoutExpired:
            self.popen.kill()
            self.popen.wait()


class Network:
    """Hosts joined by dslide-delay-switch. A context manager: the end removes everything.

    Delay is the switch's work, rate that of tbf: on the device for the uplink, behind an ifb device
    for the downlink.
    """

    def __init__(self, hosts, build, logs):
        self.hosts = {host.name: host for host in hosts}
        self.build = build
        self.logs = logs
        self.counters = ""  # of the switch, after the end
        self._order = list(self.hosts)
        self._cgroups = []
        self._processes = []
        self._switch = None

    def __enter__(self):
        atexit.register(self.close)  # a signal may come before the with statement has it
        try:
            self._create()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_):
        self.close()

    def namespace(self, name):
        return f"dslide-{os.getpid()}-{name}"

    def address(self, name):
        number = self._order.index(name) + 1
        return f"10.0.{number // 256}.{number % 256}"

    def start(self, name, command, title=None):
        """Starts a program on a host, under the host's quota."""
        command = ["nsenter", f"--net=/var/run/netns/{self.namespace(name)}", *map(str, command)]
        cgroup = self._cgroup(name) if self.hosts[name].quota > 0 else None
        process = Process(title or name, command, f"{self.logs}/{name}.log", cgroup)
        self._processes.append(process)
        return process

    def traffic(self, name):
        """Bytes that a host has received and sent, headers included."""
        with inside(self.namespace(name)), open("/proc/thread-self/net/dev") as devices:
            for line in devices:
                device, _, figures = line.strip().partition(":")
                if device == DEVICE:
                    return int(figures.split()[0]), int(figures.split()[8])
        raise BenchError(f"{name}: its device {DEVICE} is gone; did dslide-delay-switch die?")

    def close(self):
        atexit.unregister(self.close)
        with signals_ignored():
            for process in self._processes:
                process.end(signal.SIGKILL)
            if self._switch is not None:
                self._switch.end(signal.SIGTERM)
                self.counters = self._switch.output().removeprefix("ready").strip()
            for name in self._order:
                if os.path.exists(f"/var/run/netns/{self.namespace(name)}"):
                    run("ip", "netns", "del", self.namespace(name))
            for cgroup in reversed(self._cgroups):
                remove_cgroup(cgroup)
            self._processes, self._switch, self._order, self._cgroups = [], None, [], []

    def _cgroup(self, name=""):
        return f"{CPU_CGROUP}/dslide-bench-{os.getpid()}/{name}".rstrip("/")

    def _create(self):
        for name in self._order:
            run("ip", "netns", "add", self.namespace(name))
        self._start_switch()
        for host in self.hosts.values():
            self._configure(host)
        if any(host.quota > 0 for host in self.hosts.values()):
            self._make_cgroup(self._cgroup())
        for host in self.hosts.values():
            if host.quota > 0:
                self._make_cgroup(self._cgroup(host.name), host.quota)

    def _start_switch(self):
        program = f"{self.build}/bin/dslide-delay-switch"
        ports = [f"{self.namespace(h.name)},{self.address(h.name)},{h.link.delay_ms * 1000:.0f}"
                 for h in self.hosts.values()]
        self._switch = Process("dslide-delay-switch", [program, *ports], f"{self.logs}/switch.log")
        wait_for(lambda: "ready" in self._switch.output(), [self._switch], 10,
                 "dslide-delay-switch to make its devices")

    def _configure(self, host):
        namespace = self.namespace(host.name)
        ip = ["ip", "-n", namespace]
        run(*ip, "link", "set", "lo", "up")
        run(*ip, "addr", "add", f"{self.address(host.name)}/16", "dev", DEVICE)
        # Long queues, so that tbf's limit decides what a full link drops.
        run(*ip, "link", "set", DEVICE, "txqueuelen", "10000", "up")
        if host.link.bits_per_s is None:
            return
        tc = ["tc", "-n", namespace]
        bucket = token_bucket(host.link.bits_per_s)
        run(*tc, "qdisc", "add", "dev", DEVICE, "root", *bucket)
        run(*ip, "link", "add", "ifb0", "type", "ifb")
        run(*ip, "link", "set", "ifb0", "txqueuelen", "10000", "up")
        run(*tc, "qdisc", "add", "dev", DEVICE, "ingress")
        run(*tc, "filter", "add", "dev", DEVICE, "parent", "ffff:", "protocol", "ip", "u32", "match",
            "u32", "0", "0", "action", "mirred", "egress", "redirect", "dev", "ifb0")
        run(*tc, "qdisc", "add", "dev", "ifb0", "root", *bucket)

    def _make_cgroup(self, path, quota=None):
        os.mkdir(path)
        self._cgroups.append(path)
        if quota is None:
            return
        period_us = max(QUOTA_PERIOD_US, round(MIN_QUOTA_US / quota))
        for key, value in (("period", period_us), ("quota", round(quota * period_us))):
            with open(f"{path}/cpu.cfs_{key}_us", "w") as setting:
                setting.write(str(value))


def token_bucket(bits_per_s):
    burst = max(MIN_BURST_BYTES, round(bits_per_s / 8 * BURST_S))
    limit = max(MIN_BUFFER_BYTES, round(bits_per_s / 8 * BUFFER_S))
    return ["tbf", "rate", f"{bits_per_s:.0f}bit", "burst", str(burst), "limit", str(limit)]


def remove_cgroup(path):
    """A killed process may be a member for a moment after it was waited for."""
    for _ in range(50):
        with contextlib.suppress(OSError):
            os.rmdir(path)
            return
        time.sleep(0.02)
    raise BenchError(f"{path}: cannot remove; a process of the bench is still in it")


@contextlib.contextmanager
def signals_ignored():
    """SIGINT and SIGTERM do not interrupt what must be done to the end."""
    before = {number: signal.signal(number, signal.SIG_IGN)
              for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def wait_for(condition, processes, deadline_s, what):
    """Until `condition`; fails when one of the processes ends or the time is over."""
    end = time.monotonic() + deadline_s
    while not condition():
        for process in processes:
            process.check_running()
        if time.monotonic() > end:
            raise BenchError(f"waited {deadline_s} s in vain for {what}")
        time.sleep(0.1)
