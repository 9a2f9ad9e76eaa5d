#!/usr/bin/python3
"""A rolling upgrade: three servers are replaced one by one while training goes on. Each drains at SIGTERM,
and its successor joins. No batch is lost, and the run never goes back.

    upgrade_test.py BUILD_DIRECTORY [--seconds N] [--least-goodput R]

N: how long the speed is measured before, and how long each successor works.
"""

import argparse
import json
import os
import signal
import subprocess
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DATA = f"{ROOT}/tools/data/gnd-subset"
DEADLINE_S = 120


class Cluster:
    def __init__(self, build, directory):
        self._bin = f"{build}/bin"
        self.directory = directory
        self.run = f"{directory}/run"
        self.processes = {}

    def start(self, name, program, *options):
        log = open(f"{self.directory}/{name}.log", "ab")
        self.processes[name] = subprocess.Popen([f"{self._bin}/{program}", *options], stdout=log,
                                                stderr=log, stdin=subprocess.DEVNULL)
        log.close()

    def server(self, name):
        self.start(name, "dslide-server", "--scheduler", self.address, "--name", name)

    def status(self):
        done = subprocess.run([f"{self._bin}/dslide", "status", "--json", "--scheduler", self.address],
                              capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(f"upgrade_test: {done.stderr}{self.logs()}")
        return json.loads(done.stdout)

    def logs(self):
        text = ""
        for name in self.processes:
            with open(f"{self.directory}/{name}.log", encoding="utf-8", errors="replace") as file:
                text += f"\n--- {name}\n{file.read()[-1500:]}"
        return text

    def wait(self, holds, what):
        end = time.monotonic() + DEADLINE_S
        while not holds():
            if time.monotonic() > end:
                raise SystemExit(f"upgrade_test: waited in vain for {what}{self.logs()}")
            time.sleep(0.1)

    def __enter__(self):
        sets = {"train.data": f"{DATA}/train.jsonl.zst", "train.epochs": 1000, "model.hidden": 64,
                "cluster.servers": 3, "cluster.executors": 1,
                "cluster.scheduler_bind": "tcp://127.0.0.1:*", "cluster.status_bind": "",
                "checkpoint.interval_s": 0}
        self.start("scheduler", "dslide-scheduler", "--run-dir", self.run,
                   *[word for key, value in sets.items() for word in ("--set", f"{key}={value}")])
        path = f"{self.run}/scheduler.address"
        self.wait(lambda: os.path.exists(path), "the scheduler")
        with open(path, encoding="utf-8") as file:
            self.address = file.read().strip()
        for i in range(3):
            self.server(f"old-{i}")
        for i in range(2):
            self.start(f"worker-{i}", "dslide-worker", "--scheduler", self.address, "--name",
                       f"worker-{i}")
        return self

    def __exit__(self, *_):
        for process in reversed(list(self.processes.values())):
            process.kill()
            process.wait()

    def samples(self):
        return self.status()["figures"]["samples"]

    def slots(self, name):
        return sum(member.get("slots", 0) for member in self.status()["members"]
                   if member.get("role") == "server" and member["name"] == name)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--least-goodput", type=float, default=0, help="for figures: 0.8")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="dslide-upgrade-") as directory, \
            Cluster(os.path.abspath(arguments.build), directory) as cluster:
        cluster.wait(lambda: cluster.samples() > 20000, "training")
        first, began = cluster.samples(), time.monotonic()
        time.sleep(arguments.seconds)
        before = (cluster.samples() - first) / (time.monotonic() - began)

        first, began = cluster.samples(), time.monotonic()
        for i in range(3):
            old, new = f"old-{i}", f"new-{i}"
            cluster.server(new)
            cluster.processes[old].send_signal(signal.SIGTERM)
            code = cluster.processes[old].wait(DEADLINE_S)
            if code != 0:
                raise SystemExit(f"upgrade_test: {old} ended with {code}{cluster.logs()}")
            cluster.wait(lambda: cluster.slots(new) > 0, f"slots for {new}")
            time.sleep(arguments.seconds)
        meanwhile = (cluster.samples() - first) / (time.monotonic() - began)
        status = cluster.status()
        cluster.processes["scheduler"].send_signal(signal.SIGTERM)
        code = cluster.processes["scheduler"].wait(DEADLINE_S)
        if code != 85:
            raise SystemExit(f"upgrade_test: the scheduler ended with {code}{cluster.logs()}")
        verified = subprocess.run([f"{arguments.build}/bin/dslide", "ledger", "verify", cluster.run],
                                  capture_output=True, text=True)
        goodput = meanwhile / before
        print(f"before {before:.0f} samples/s, meanwhile {meanwhile:.0f}: goodput {goodput:.2f}; "
              f"{status['recoveries']} recoveries")
        print(verified.stdout[:400], verified.stderr)
        if verified.returncode != 0 or status["recoveries"] != 0 or goodput < arguments.least_goodput:
            raise SystemExit(f"upgrade_test: it did not go well{cluster.logs()}")


if __name__ == "__main__":
    main()
