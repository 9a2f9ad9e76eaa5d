"""A D-SLIDE cluster on the hosts of a network, and how fast it trains there."""

import json
import os
import signal
import subprocess
import time
from dataclasses import dataclass, field

from netlab import Host, Network, wait_for

START_DEADLINE_S = 300  # reading the data and joining
STALL_DEADLINE_S = 120  # between two progress records, which come every 5 s
END_DEADLINE_S = 300  # after the summary is written
SCHEDULER_PORT = 7700


@dataclass
class Plan:
    """What is trained and measured, the same for every network."""

    build: str
    data: str
    test: str
    seconds: float
    accuracy: bool  # train to the end and evaluate, instead of `seconds`
    worker_data: bool
    sets: list[str] = field(default_factory=list)


def host_names(kind, count):
    return [f"{kind}{number}" for number in range(1, count + 1)]


def make_hosts(servers, workers, quota, server_link, worker_link):
    return [Host("scheduler", server_link),
            *(Host(name, server_link, quota) for name in host_names("server", servers)),
            *(Host(name, worker_link, quota) for name in host_names("worker", workers))]


def knows_worker_data(build):
    """Whether this build's workers can read the training file themselves."""
    help_text = subprocess.run([f"{build}/bin/dslide-worker", "--help"], capture_output=True,
                               text=True, check=False).stdout
    return "--data" in help_text


class Cluster:
    """The processes of one training run."""

    def __init__(self, network, plan, directory):
        self.network = network
        self.plan = plan
        self.run_dir = f"{directory}/run"
        self.servers = [name for name in network.hosts if name.startswith("server")]
        self.workers = [name for name in network.hosts if name.startswith("worker")]
        self.members = {}  # processes by host, without the scheduler
        self._start()

    def _start(self):
        plan, network, sets = self.plan, self.network, self._sets()
        self.scheduler = self._launch("scheduler", "--run-dir", self.run_dir, *sets)
        address = f"{self.run_dir}/scheduler.address"
        wait_for(lambda: os.path.exists(address), [self.scheduler], START_DEADLINE_S,
                 "dslide-scheduler to read the data")
        dial = ("--scheduler", f"tcp://{network.address('scheduler')}:{SCHEDULER_PORT}")
        for name in self.servers:
            self.members[name] = self._launch(
                name, *dial, "--name", name, "--bind", f"tcp://{network.address(name)}:*", *sets)
        own_data = ("--data", plan.data) if plan.worker_data else ()
        for name in self.workers:
            self.members[name] = self._launch(name, *dial, "--name", name, *own_data)

    def _launch(self, name, *arguments):
        program = "dslide-" + name.rstrip("0123456789")
        return self.network.start(name, [f"{self.plan.build}/bin/{program}", *arguments],
                                  f"{program} on host {name}")

    def _sets(self):
        plan = self.plan
        values = {"train.data": plan.data, "train.evaluate_samples": 1, "model.hidden": 128,
                  "cluster.servers": len(self.servers), "cluster.executors": 1,
                  "cluster.scheduler_bind":
                      f"tcp://{self.network.address('scheduler')}:{SCHEDULER_PORT}",
                  "cluster.status_bind": "", "checkpoint.interval_s": 0,
                  "security.allow_plaintext": "true"}
        if plan.accuracy:
            values["train.test"] = plan.test
        else:
            values["train.epochs"] = 1000  # it is stopped before
        pairs = [f"{key}={value}" for key, value in values.items()] + plan.sets
        return [word for pair in pairs for word in ("--set", pair)]

    def usage(self):
        """CPU seconds and traffic of every member until now."""
        return {name: (process.cpu_seconds(), *self.network.traffic(name))
                for name, process in self.members.items() if process.running()}

    def progress(self):
        """The progress records written until now, from the first trained sample on."""
        try:
            with open(f"{self.run_dir}/metrics.jsonl") as metrics:
                lines = metrics.read().split("\n")[:-1]
        except FileNotFoundError:
            return []
        records = [json.loads(line) for line in lines]
        return [r for r in records if r["event"] == "progress" and r["samples"] > 0]

    def check_running(self):
        for process in (self.scheduler, *self.members.values()):
            process.check_running()

    def stop(self):
        """At once: a second signal spares the checkpoint that the first one asks for."""
        for _ in range(2):
            self.scheduler.signal(signal.SIGTERM)
            time.sleep(0.3)
        self.scheduler.end(signal.SIGTERM)

    def wait_for_end(self):
        self.scheduler.wait(END_DEADLINE_S)
        with open(f"{self.run_dir}/summary.json") as summary:
            return json.load(summary)


def watch(cluster, seconds):
    """Progress records, each with the usage() when it came; until `seconds` of them or the end."""
    seen = []
    last = time.monotonic()
    deadline_s = START_DEADLINE_S
    while cluster.scheduler.running():
        for record in cluster.progress()[len(seen):]:
            seen.append((record, cluster.usage()))
            last, deadline_s = time.monotonic(), STALL_DEADLINE_S
        if seconds is None:
            if os.path.exists(f"{cluster.run_dir}/summary.json"):
                break
        else:
            cluster.check_running()
            if len(seen) > 2 and elapsed(seen[0], seen[-1]) >= seconds:
                break
        if time.monotonic() - last > deadline_s:
            cluster.scheduler.fail(f"trained nothing for {deadline_s} s")
        time.sleep(0.2)
    return seen


def elapsed(first, last):
    return last[0]["elapsed_s"] - first[0]["elapsed_s"]


def figures(seen, cluster):
    """Rates over the records after the first third of the time, which is warming up."""
    steady = [entry for entry in seen if elapsed(seen[0], entry) >= elapsed(seen[0], seen[-1]) / 3]
    if len(steady) < 2:
        cluster.scheduler.fail("finished before its speed could be measured; give it more epochs")
    (first, usage_first), (last, usage_last) = steady[0], steady[-1]
    seconds = last["elapsed_s"] - first["elapsed_s"]
    samples = last["samples"] - first["samples"]

    def grown(names, field_number):
        return sum(usage_last[name][field_number] - usage_first[name][field_number]
                   for name in names if name in usage_first and name in usage_last)

    def message_bytes(key):
        before = [entry[0] for entry in steady]
        return sum(r[key] * (r["samples"] - p["samples"]) for p, r in zip(before, before[1:]))

    def share_of_quota(names):
        quota = cluster.network.hosts[names[0]].quota
        return grown(names, 0) / (seconds * len(names) * quota) if quota else None

    sent, received = message_bytes("bytes_sent_per_sample"), message_bytes(
        "bytes_received_per_sample")
    wire = grown(cluster.workers, 1) + grown(cluster.workers, 2)
    return {"samples_per_second": samples / seconds, "measured_s": seconds,
            "bytes_sent_per_sample": sent / samples, "bytes_received_per_sample": received / samples,
            "bytes_per_sample_and_server": (sent + received) / samples / len(cluster.servers),
            "wire_bytes_per_sample": wire / samples,
            "server_cpu_share": share_of_quota(cluster.servers),
            "worker_cpu_share": share_of_quota(cluster.workers)}


def train(hosts, plan, directory):
    """Trains on these hosts and returns the figures; P@1 among them if the plan asks for it."""
    os.makedirs(directory)
    with Network(hosts, plan.build, directory) as network:
        cluster = Cluster(network, plan, directory)
        seen = watch(cluster, None if plan.accuracy else plan.seconds)
        if not plan.accuracy:
            cluster.stop()
            return figures(seen, cluster)
        summary = cluster.wait_for_end()
        return figures(seen, cluster) | {"p_at_1": 100 * summary["p_at_1"]}
