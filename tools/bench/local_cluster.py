"""A D-SLIDE cluster on this machine: processes started one by one, and replaced when they die."""

import configparser
import json
import os
import signal
import socket
import sys
import time
import urllib.error
import urllib.request

from netlab import BenchError, Process, signals_ignored, wait_for

START_DEADLINE_S = 120
LEAVE_DEADLINE_S = 30  # for members to end after the scheduler
TRY_LATER = 75
MOST_DEATHS = 20  # without kill()


def data_file(directory, name):
    """train, dev or test of a data set, as text or as numbers."""
    for ending in ("jsonl.zst", "txt.zst"):
        if os.path.exists(path := f"{directory}/{name}.{ending}"):
            return path
    raise BenchError(f"{directory} has no {name}.jsonl.zst and no {name}.txt.zst", 2)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Cluster:
    """A context manager that ends all its processes at its end."""

    def __init__(self, build, directory, servers, workers, settings):
        self.run_dir = f"{directory}/run"
        self.names = {"scheduler": ["scheduler"],
                      "server": [f"server-{n}" for n in range(1, servers + 1)],
                      "worker": [f"worker-{n}" for n in range(1, workers + 1)]}
        self.finished_at = None  # monotonic
        self._bin = f"{build}/bin"
        self._directory = directory
        self._port = free_port()
        status = free_port()
        self._status = f"http://127.0.0.1:{status}/api/status"
        pairs = [*settings, f"cluster.servers={servers}", f"cluster.workers={workers}",
                 f"cluster.scheduler_bind=tcp://127.0.0.1:{self._port}",
                 f"cluster.status_bind=tcp://127.0.0.1:{status}"]
        self._sets = [word for pair in pairs for word in ("--set", pair)]
        self._lives = {}  # number of lives by name
        self._processes = {}
        self._killed = set()  # names of the processes that kill() ended
        self._deaths = 0

    def __enter__(self):
        try:
            self._start("scheduler")
            wait_for(lambda: os.path.exists(f"{self.run_dir}/scheduler.address"),
                     [self._processes["scheduler"]], START_DEADLINE_S,
                     "dslide-scheduler to read the data")
            for name in self.names["server"] + self.names["worker"]:
                self._start(name)
        except BaseException:
            self.end()
            raise
        return self

    def __exit__(self, *_):
        self.end()

    def end(self):
        with signals_ignored():
            for process in self._processes.values():
                process.end(signal.SIGKILL)

    def process(self, name):
        return self._processes[name]

    def kill(self, name):
        """Kills a process at once; the next supervise() starts its replacement."""
        self._killed.add(name)
        self._processes[name].end(signal.SIGKILL)

    def supervise(self):
        """Replaces processes that have ended. False: the run is complete."""
        for name in list(self._processes):
            process = self._processes[name]
            code = process.exit_code()
            if code is None:
                continue
            if name == "scheduler" and code == 0:
                self.finished_at = self.finished_at or time.monotonic()
                return False
            if name in self._killed:
                self._killed.remove(name)
            elif code == 0:  # dismissed: the scheduler is about to end as well
                continue
            else:
                self._count_death(process, code)
            self._start(name)
        return True

    def leave(self):
        """After the scheduler's end: waits for the processes that it has dismissed."""
        for name, process in self._processes.items():
            if self._lives[name] == 1 or "joined" in process.output():
                process.wait(LEAVE_DEADLINE_S)

    def status(self):
        """The scheduler's status; None while the status page does not answer."""
        try:
            with urllib.request.urlopen(self._status, timeout=2) as page:
                status = json.load(page)
                return status if "figures" in status else None  # at first it is empty
        except (urllib.error.URLError, OSError, ValueError):
            return None

    def summary(self):
        with open(f"{self.run_dir}/summary.json") as summary:
            return json.load(summary)

    def config(self):
        config = configparser.ConfigParser(interpolation=None)
        config.read(f"{self.run_dir}/config.ini")
        return config

    def count_samples(self):
        """What `dslide ledger verify` counts: seen, duplicated, missing."""
        return self._verify("ledger")

    def model(self):
        """A checksum of the last checkpoint's content."""
        return self._verify("checkpoint")["content_checksum"]

    def _verify(self, what):
        process = Process(f"dslide {what} verify", [f"{self._bin}/dslide", what, "verify",
                                                    self.run_dir, "--json"],
                          f"{self._directory}/{what}.log")
        while process.exit_code() is None:  # may differ from 0: the output has the findings
            time.sleep(0.05)
        try:
            return json.loads(process.output())
        except ValueError:
            process.fail("could not read the run")

    def _count_death(self, process, code):
        self._deaths += 1
        if (code > 0 and code != TRY_LATER) or self._deaths > MOST_DEATHS:
            process.fail(f"ended by itself (exit code {code})")

    def _start(self, name):
        life = self._lives[name] = self._lives.get(name, 0) + 1
        role = name.rstrip("-0123456789")
        command = [f"{self._bin}/dslide-{role}"]
        if role == "scheduler":
            command += ["--run-dir", self.run_dir, *self._sets]
            if os.path.exists(f"{self.run_dir}/ledger"):
                command.append("--resume")
        else:
            command += ["--scheduler", f"tcp://127.0.0.1:{self._port}", "--name", name]
        if role == "server":
            command += self._sets
        self._processes[name] = Process(f"dslide-{role} ({name}, life {life})", command,
                                        f"{self._directory}/{name}.{life}.log")
        return self._processes[name]


def check_build(build, programs=()):
    """Checks that the build has the programs of a cluster, and `programs`."""
    for program in ("dslide", "dslide-scheduler", "dslide-server", "dslide-worker", *programs):
        if not os.path.exists(f"{build}/bin/{program}"):
            raise BenchError(f"{build}/bin/{program} is missing; build it by 'cmake --preset release "
                             "&& cmake --build --preset release', or name another build directory "
                             "by --build", 2)
    cache = f"{build}/CMakeCache.txt"
    if os.path.exists(cache):
        with open(cache, encoding="utf-8") as file:
            if "DSLIDE_QUICK_BUILD:BOOL=ON" in file.read():
                print(f"{build} is a quick build for tests, which is slower; configure it by "
                      "-DDSLIDE_QUICK_BUILD=OFF", file=sys.stderr)
