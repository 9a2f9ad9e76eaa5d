#!/usr/bin/python3
"""Clusters over IPv6 alone, and by a host name whose address changes while they train.

    names_test.py BUILD_DIRECTORY

Works in a network namespace and a mount namespace of its own; needs root.
"""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, f"{ROOT}/tools/bench")

from netlab import Process, wait_for  # noqa: E402

DEADLINE_S = 120
NAMESPACES = "DSLIDE_NAMES_TEST"  # set in the process that has its own
SETTINGS = ("train.data=train.txt", "train.batch=32", "model.hidden=32", "cluster.executors=1",
            "cluster.heartbeat_ms=200", "checkpoint.interval_s=1", "cluster.status_bind=")


class Cluster:
    """A scheduler, a server and a worker with its keys; a context manager that ends them."""

    def __init__(self, binaries, run):
        self._binaries = binaries
        self._run = run
        self.processes = []

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        for process in self.processes:
            if kind is not None:
                print(f"--- {process.title}\n{process.output()[-3000:]}")
            process.end(signal.SIGKILL)

    def start(self, program, *arguments):
        title = f"{self._run}-{len(self.processes)}-{program}"
        process = Process(title, [f"{self._binaries}/{program}", *arguments], f"{title}.log")
        self.processes.append(process)
        return process

    def start_scheduler(self, address, epochs, *arguments):
        with contextlib.suppress(FileNotFoundError):
            os.remove(f"{self._run}/scheduler.address")
        sets = [word for pair in (*SETTINGS, f"cluster.scheduler_bind={address}",
                                  f"train.epochs={epochs}") for word in ("--set", pair)]
        scheduler = self.start("dslide-scheduler", "--run-dir", self._run, *sets, *arguments)
        wait_for(lambda: os.path.exists(f"{self._run}/scheduler.address"), [scheduler], DEADLINE_S,
                 "the scheduler")
        return scheduler

    def start_members(self, bind):
        keys = f"{self._run}/keys"
        return [self.start("dslide-server", "--key", f"{keys}/server.key", "--bind", bind),
                self.start("dslide-worker", "--key", f"{keys}/worker.key")]

    def wait_for_line(self, process, text):
        wait_for(lambda: text in process.output(), self.processes, DEADLINE_S, f"'{text}'")


def over_ipv6(binaries):
    with Cluster(binaries, "six") as cluster:
        scheduler = cluster.start_scheduler("tcp://[fd00:77::1]:*", 2)
        for process in [*cluster.start_members("tcp://[fd00:77::2]:*"), scheduler]:
            process.wait(DEADLINE_S)
        assert "joined at tcp://[fd00:77::2]:" in scheduler.output()


def by_name(binaries):
    def name_is_at(address):
        with open("hosts", "w", encoding="utf-8") as file:
            file.write(f"127.0.0.1 localhost\n{address} cluster.test\n")

    open("hosts", "w", encoding="utf-8").close()
    subprocess.run(["mount", "--bind", "hosts", "/etc/hosts"], check=True)
    name_is_at("10.81.0.1")
    advertise = ("--set", "cluster.scheduler_advertise=tcp://cluster.test:7700")
    with Cluster(binaries, "named") as cluster:
        first = cluster.start_scheduler("tcp://10.81.0.1:7700", 1000000, *advertise)
        members = cluster.start_members("tcp://10.81.0.1:*")
        cluster.wait_for_line(first, " written")
        cluster.processes.remove(first)
        first.end(signal.SIGKILL)
        name_is_at("10.81.0.2")
        second = cluster.start_scheduler("tcp://10.81.0.2:7700", 1000000, "--resume", *advertise)
        cluster.wait_for_line(second, "worker joined")
        cluster.wait_for_line(second, " written")
        second.signal(signal.SIGTERM)
        wait_for(lambda: not second.running(), [], DEADLINE_S, "the scheduler's end")
        assert second.exit_code() == 85, second.exit_code()
        for member in members:
            wait_for(lambda: not member.running(), [], DEADLINE_S, "the members' end")


def main():
    if NAMESPACES not in os.environ:
        os.environ[NAMESPACES] = "yes"
        os.execvp("unshare", ["unshare", "--net", "--mount", "--propagation", "private",
                              sys.executable, *sys.argv])
    for words in ("link set lo up", "addr add fd00:77::1/128 dev lo nodad",
                  "addr add fd00:77::2/128 dev lo nodad", "addr add 10.81.0.1/32 dev lo",
                  "addr add 10.81.0.2/32 dev lo"):
        subprocess.run(["ip", *words.split()], check=True)
    binaries = f"{os.path.abspath(sys.argv[1])}/bin"
    with tempfile.TemporaryDirectory(prefix="dslide-names-") as directory:
        os.chdir(directory)
        with open("train.txt", "w", encoding="utf-8") as file:
            file.write("2000 300 200\n")
            for i in range(2000):
                file.write(f"{i % 200} {i % 200}:1 {200 + i % 97}:0.5\n")
        try:
            over_ipv6(binaries)
            by_name(binaries)
        finally:
            os.chdir("/")


if __name__ == "__main__":
    main()
