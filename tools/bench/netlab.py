"""Hosts of a network on this machine: namespaces, links, CPU quotas, their processes."""

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

QUOTA_PERIOD_US = 5000  # short: a throttled process waits no longer than a packet would
MIN_QUOTA_US = 1000  # the kernel's minimum
CPU_SHARES = 262144  # the most; 1024 is normal
CPU_CGROUP = "/sys/fs/cgroup/cpu"
WAKE_LATENCY = "/dev/cpu_dma_latency"
DEVICE = "eth0"
CLONE_NEWNET = 0x40000000
PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None)


class BenchError(Exception):
    """An error that the user sees as one line; the process ends with this exit code."""

    def __init__(self, message, exit_code=1):
        super().__init__(message)
        self.exit_code = exit_code


@dataclass(frozen=True)
class Link:
    """Rate of a host's uplink and of its downlink, and the one-way delay from host to host."""

    name: str
    bits_per_s: float = 0  # 0: as fast as the machine
    delay_ms: float = 0

    @classmethod
    def parse(cls, text):
        if text == "unshaped":
            return cls(text)
        match = re.fullmatch(r"(\d+(?:\.\d+)?)([kmg])bit/(\d+(?:\.\d+)?)ms", text)
        rate = float(match[1]) * {"k": 1e3, "m": 1e6, "g": 1e9}[match[2]] if match else 0
        if not 1e5 <= rate <= 1e11 or float(match[3]) > 10000:
            raise BenchError(f"link {text}: expected 'unshaped' or RATE/DELAY such as 100mbit/5ms, "
                             "from 100kbit to 100gbit and up to 10000ms", 2)
        return cls(text, rate, float(match[3]))


@dataclass(frozen=True)
class Host:
    name: str
    link: Link
    quota: float = 0  # cores; 0: unlimited


def check_machine(quotas):
    """Checks that this machine can run a network; `quotas`: with CPU quotas."""
    if os.geteuid() != 0:
        raise BenchError("needs root (it creates network namespaces); run it with sudo", 2)
    for program, package in (("ip", "iproute2"), ("nsenter", "util-linux")):
        if shutil.which(program) is None:
            raise BenchError(f"{program} is missing; apt-get install {package}", 2)
    if not os.path.exists("/dev/net/tun"):
        raise BenchError("/dev/net/tun is missing; the kernel needs CONFIG_TUN", 2)
    if quotas and not os.access(f"{CPU_CGROUP}/cpu.cfs_quota_us", os.W_OK):
        raise BenchError(f"{CPU_CGROUP}: no writable cgroup v1 CPU controller for the hosts' "
                         "quotas; mount it, or do without by --quota 0", 2)


@contextlib.contextmanager
def cores_awake():
    """Keeps idle cores awake, if the kernel allows it. Processes under a quota run in bursts, and
    after a core's sleep a virtual machine may need twice as long for the same code."""
    if not os.access(WAKE_LATENCY, os.W_OK):
        yield
        return
    with open(WAKE_LATENCY, "wb", buffering=0) as latency:  # in effect while the file is open
        latency.write(bytes(4))  # microseconds
        yield


def run_ip(*arguments):
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BenchError(f"'ip {' '.join(arguments)}' failed: {done.stderr.strip()}")


@contextlib.contextmanager
def inside(namespace):
    """Moves the calling thread into the network namespace: its new sockets belong there."""
    with open("/proc/thread-self/ns/net") as home, open(f"/var/run/netns/{namespace}") as there:
        if LIBC.setns(there.fileno(), CLONE_NEWNET) != 0:
            raise BenchError(f"cannot enter network namespace {namespace}")
        try:
            yield
        finally:
            LIBC.setns(home.fileno(), CLONE_NEWNET)


class Process:
    """A program on a host, with its output in a file. It is killed when this script ends."""

    def __init__(self, title, command, log, cgroup=None):
        def in_child():
            LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            if cgroup is not None:
                write_setting(f"{cgroup}/cgroup.procs", 0)

        self.title = title
        self._log = log
        with open(log, "w") as output:
            self._popen = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output,
                                           stderr=output, start_new_session=True,
                                           preexec_fn=in_child)
        self.pid = self._popen.pid

    def output(self):
        with open(self._log, errors="replace") as log:
            return log.read().strip()

    def running(self):
        return self._popen.poll() is None

    def exit_code(self):
        """Minus the signal that ended it; None while it runs."""
        return self._popen.poll()

    def fail(self, how):
        raise BenchError(f"{self.title} {how}; its last line: "
                         f"{(self.output() or 'none').splitlines()[-1]}")

    def check_running(self):
        if not self.running():
            self.fail(f"ended early (exit code {self._popen.returncode})")

    def wait(self, deadline_s):
        """Waits for the end; fails unless the exit code is 0."""
        try:
            if self._popen.wait(deadline_s) != 0:
                self.fail(f"failed (exit code {self._popen.returncode})")
        except subprocess.TimeoutExpired:
            self.fail(f"has not ended in {deadline_s} s")

    def signal(self, number):
        self._popen.send_signal(number)

    def end(self, number):
        """Ends the process by this signal, or by SIGKILL after 10 s."""
        self.signal(number)
        try:
            self._popen.wait(10)
        except subprocess.TimeoutExpired:
            self._popen.kill()
            self._popen.wait()

    def cpu_seconds(self):
        with open(f"/proc/{self.pid}/stat") as stat:
            fields = stat.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Network:
    """Hosts joined by dslide-delay-switch. A context manager that removes everything at its end.
    `tag` distinguishes networks that exist at the same time."""

    def __init__(self, hosts, build, logs, tag=""):
        self.hosts = {host.name: host for host in hosts}
        self._id = f"{os.getpid()}{tag}"
        self.counters = ""  # of the switch, after the end
        self._build = build
        self._logs = logs
        self._cgroup = f"{CPU_CGROUP}/dslide-bench-{self._id}"
        self._processes = []
        self._switch = None

    def __enter__(self):
        atexit.register(self._remove)  # a signal may come before the with statement holds it
        try:
            self._create()
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(self, *_):
        self._remove()

    def namespace(self, name):
        return f"dslide-{self._id}-{name}"

    def address(self, name):
        number = list(self.hosts).index(name) + 1
        return f"10.0.{number // 256}.{number % 256}"

    def start(self, name, command, title=None, log=None):
        """Starts a program on a host, under the host's quota. `log`: the log's name, the host's by
        default."""
        command = ["nsenter", f"--net=/var/run/netns/{self.namespace(name)}", *map(str, command)]
        cgroup = f"{self._cgroup}/{name}" if os.path.exists(self._cgroup) else None
        process = Process(title or name, command, f"{self._logs}/{log or name}.log", cgroup)
        self._processes.append(process)
        return process

    def traffic(self, name):
        """Bytes that a host has received and sent, headers included."""
        with inside(self.namespace(name)), open("/proc/thread-self/net/dev") as devices:
            lines = dict(line.split(":", 1) for line in devices if ":" in line)
        figures = {device.strip(): text.split() for device, text in lines.items()}[DEVICE]
        return int(figures[0]), int(figures[8])

    def _create(self):
        for name in self.hosts:
            run_ip("netns", "add", self.namespace(name))
        ports = [f"{self.namespace(host.name)},{self.address(host.name)},"
                 f"{host.link.delay_ms * 1000},{host.link.bits_per_s}"
                 for host in self.hosts.values()]
        self._switch = Process("dslide-delay-switch",
                               [f"{self._build}/bin/dslide-delay-switch", *ports],
                               f"{self._logs}/switch.log")
        wait_for(lambda: "ready" in self._switch.output(), [self._switch], 10,
                 "dslide-delay-switch to make its devices")
        for name in self.hosts:
            ip = ("-n", self.namespace(name))
            run_ip(*ip, "link", "set", "lo", "up")
            run_ip(*ip, "addr", "add", f"{self.address(name)}/16", "dev", DEVICE)
            # A long queue, so that the switch decides what a full link drops.
            run_ip(*ip, "link", "set", DEVICE, "txqueuelen", "10000", "up")
        if any(host.quota > 0 for host in self.hosts.values()):
            self._create_cgroups()

    def _create_cgroups(self):
        """One cgroup per host, inside one with precedence over everything else on this machine."""
        os.mkdir(self._cgroup)
        write_setting(f"{self._cgroup}/cpu.shares", CPU_SHARES)
        for host in self.hosts.values():
            path = f"{self._cgroup}/{host.name}"
            os.mkdir(path)
            if host.quota > 0:
                period_us = max(QUOTA_PERIOD_US, round(MIN_QUOTA_US / host.quota))
                write_setting(f"{path}/cpu.cfs_period_us", period_us)
                write_setting(f"{path}/cpu.cfs_quota_us", round(host.quota * period_us))

    def _remove(self):
        atexit.unregister(self._remove)
        with signals_ignored():
            for process in self._processes:
                process.end(signal.SIGKILL)
            if self._switch is not None:
                self._switch.end(signal.SIGTERM)
                self.counters = self._switch.output().removeprefix("ready").strip()
            for name in self.hosts:
                if os.path.exists(f"/var/run/netns/{self.namespace(name)}"):
                    run_ip("netns", "del", self.namespace(name))
            for name in (*self.hosts, ""):
                remove_cgroup(f"{self._cgroup}/{name}")


def write_setting(path, value):
    with open(path, "w") as setting:
        setting.write(str(value))


def remove_cgroup(path):
    """A killed process may stay a member for a moment after wait()."""
    end = time.monotonic() + 2
    while os.path.exists(path):
        try:
            os.rmdir(path)
        except OSError as error:
            if time.monotonic() > end:
                raise BenchError(f"{path}: cannot remove: {error.strerror}") from error
            time.sleep(0.02)


@contextlib.contextmanager
def signals_ignored():
    """SIGINT and SIGTERM do not interrupt the block."""
    before = {number: signal.signal(number, signal.SIG_IGN)
              for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def wait_for(condition, processes, deadline_s, what):
    """Waits for `condition`; fails when one of the processes ends or the time is over."""
    end = time.monotonic() + deadline_s
    while not condition():
        for process in processes:
            process.check_running()
        if time.monotonic() > end:
            raise BenchError(f"waited {deadline_s} s in vain for {what}")
        time.sleep(0.1)
