#!/usr/bin/python3 -B
"""Runs by configs/slurm on a real Slurm: two servers and an array of workers.

First the job of the servers stops ahead of its time limit and is queued again, a worker is preempted
with a grace time, and more workers come. Then every 20 s an urgent job preempts two of four workers,
and one node is killed. Both runs finish, their ledgers are exact, and honest work goes on.

    slurm_test.py BUILD_DIRECTORY [--seconds N] [--least-goodput R]

N: how long the disturbed part takes; the undisturbed one is a third of it.
"""

import argparse
import json
import os
import subprocess
import sys
import time

from debian_root import ROOT
from slurm_lab import Slurm

DATA = f"{ROOT}/tools/data/gnd-subset"
CONFIGS = f"{ROOT}/configs/slurm"
SAMPLES = 42000
ADDRESS = "10.80.0.1"  # of the loopback interface of a network namespace
EVERY_S = 20
CONFIGURATION = f"""
[train]
data = {DATA}/train.jsonl.zst
epochs = {{epochs}}
heldout = 0
[model]
hidden = 128
[cluster]
executors = 1
lease_timeout_ms = 5000
[checkpoint]
interval_s = 10
"""


class Run:
    """Both jobs of a run."""

    def __init__(self, slurm, name, epochs, workers=4, partition="preemptible", **settings):
        self.slurm = slurm
        self.directory = f"{slurm.root}/{name}"
        config = f"{slurm.root}/{name}.ini"
        with open(config, "w", encoding="utf-8") as file:
            file.write(CONFIGURATION.format(epochs=epochs))
        where = {"RUN": self.directory, "ADDRESS": ADDRESS}
        self._log = f"--output={slurm.root}/log/{name}-%x-%a.log"
        self._where = where
        self.cluster = slurm.submit("--nodes=2", "--partition=main", self._log,
                                    f"{CONFIGS}/cluster.sbatch", CONFIG=config, **settings, **where)
        self.workers = self.add_workers(f"1-{workers}", partition)

    def add_workers(self, tasks, partition):
        return self.slurm.submit(f"--array={tasks}", f"--partition={partition}", "--exclusive",
                                 self._log, f"{CONFIGS}/workers.sbatch", **self._where)

    def status(self):
        done = subprocess.run(["dslide", "status", "--json", "--key",
                               f"{self.directory}/keys/observer.key"],
                              env=self.slurm.environment, capture_output=True, text=True)
        return json.loads(done.stdout) if done.returncode == 0 else None

    def samples(self):
        status = self.status()
        return None if status is None else status["figures"]["samples"]

    def await_samples(self, least, seconds=120):
        end = time.monotonic() + seconds
        while (self.samples() or 0) < least:
            if time.monotonic() > end:
                raise SystemExit(f"slurm_test: no {least} samples in {seconds} s\n"
                                 f"{self.slurm.command('squeue', '-a')}\n{self.slurm.logs()}")
            time.sleep(0.2)

    def ended(self):
        return self.slurm.state(self.cluster) == ["COMPLETED"]

    def stop(self):
        self.slurm.command("scancel", self.workers)
        self.slurm.command("scancel", "--signal=TERM", "--batch", self.cluster)
        self.slurm.await_(lambda: self.slurm.command(
            "squeue", "-h", "-j", f"{self.cluster},{self.workers}", "-t",
            "running,pending,completing").strip() == "", "the end of the run")

    def verify(self):
        self.slurm.command("dslide", "ledger", "verify", self.directory)


def urgent_job(slurm, nodes):
    slurm.submit("--partition=urgent", f"--nodes={nodes}", "--exclusive",
                 f"--output={slurm.root}/log/urgent.log", "--wrap", "sleep 3")


def queued_again(slurm):
    """By time limits and by preemption with a grace time."""
    run = Run(slurm, "again", 1000, workers=1, partition="graceful", STOP_AFTER="1")
    run.await_samples(1)
    step = slurm.command("scontrol", "show", "step", f"{run.cluster}.0")
    if " CPUs=4 " not in step:
        raise SystemExit(f"slurm_test: two servers have not two CPUs each:\n{step}")
    slurm.command("scancel", "--signal=USR1", "--batch", run.cluster)
    slurm.await_(lambda: slurm.restarts(run.cluster) == 1, "the job of the servers")
    slurm.await_restarted([run.cluster], 1)
    run.await_samples((run.samples() or SAMPLES) + 1)
    print("the servers' job was stopped ahead of its limit, queued again, and went on", flush=True)

    more = run.add_workers("2-4", "preemptible")
    slurm.await_(lambda: slurm.state(more) == ["RUNNING"] * 3, "more workers")
    urgent_job(slurm, 4)
    slurm.await_(lambda: slurm.restarts(run.workers) == 1 and slurm.restarts(more) == 3,
                 "all workers to be preempted")
    slurm.await_restarted([run.workers, more], 4)
    run.await_samples(run.samples() + 1)
    print("workers with and without a grace time were preempted, and came again", flush=True)
    slurm.command("scancel", more)
    run.stop()
    run.verify()


def undisturbed_rate(slurm, seconds):
    run = Run(slurm, "calm", 1000)
    run.await_samples(SAMPLES / 4)  # all four workers are there
    first, began = run.status()["figures"]["samples"], time.monotonic()
    time.sleep(seconds)
    rate = (run.status()["figures"]["samples"] - first) / (time.monotonic() - began)
    run.stop()
    return rate


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--least-goodput", type=float, default=0, help="for figures: 0.7")
    arguments = parser.parse_args()
    build = os.path.abspath(arguments.build)
    if os.environ.get("DSLIDE_SLURM_NET") != ADDRESS:
        os.environ["DSLIDE_SLURM_NET"] = ADDRESS
        os.execvp("unshare", ["unshare", "--net", "sh", "-c",
                              f"ip link set lo up && ip addr add {ADDRESS}/32 dev lo && exec \"$@\"",
                              "sh", sys.executable, *sys.argv])
    with Slurm(6, f"{build}/bin") as slurm:
        queued_again(slurm)
        rate = undisturbed_rate(slurm, arguments.seconds / 3)
        print(f"undisturbed: {rate:.0f} samples/s", flush=True)
        epochs = max(2, round(arguments.seconds * rate / SAMPLES))
        run = Run(slurm, "disturbed", epochs)
        run.await_samples(1)
        began = time.monotonic()
        preempted = 0
        next_s = EVERY_S / 2
        killed = False
        while not run.ended():
            now_s = time.monotonic() - began
            if now_s > 4 * arguments.seconds + 60:
                raise SystemExit(f"slurm_test: does not end\n{slurm.command('squeue', '-a')}\n"
                                 f"{slurm.logs()}")
            if now_s >= next_s:
                urgent_job(slurm, 2)
                preempted += 2
                next_s += EVERY_S
            if not killed and now_s > arguments.seconds / 2:
                slurm.kill_node("n6")
                killed = True
            slurm.start_soon(run.workers)
            time.sleep(0.5)
        took_s = time.monotonic() - began
        goodput = SAMPLES * epochs / took_s / rate
        restarts = slurm.restarts(run.workers)
        if restarts == 0:
            raise SystemExit(f"slurm_test: no worker was preempted\n{slurm.logs()}")
        print(f"{epochs} epochs in {took_s:.0f} s, {preempted} nodes taken for urgent jobs, one node "
              f"killed, {restarts} restarts of workers: goodput {goodput:.2f}")
        run.verify()
        if goodput < arguments.least_goodput:
            raise SystemExit(f"slurm_test: goodput {goodput:.2f}, at least {arguments.least_goodput}\n"
                             f"{slurm.logs()}")


if __name__ == "__main__":
    main()
