"""A D-SLIDE cluster on the hosts of a network, and how fast it trains there."""

import json
import os
import signal
import time
from dataclasses import dataclass

from netlab import Host, Network, wait_for

START_DEADLINE_S = 300  # reading the data, joining, the first batches
STALL_DEADLINE_S = 120  # between progress records, which come every 5 s
END_DEADLINE_S = 600  # the last checkpoint, under the quotas
PORT = 7700


@dataclass
class Plan:
    """What is trained and measured, the same for every network."""

    build: str
    data: str  # the workers read it themselves
    sets: list[str]


def host_names(kind, count):
    return [f"{kind}{number}" for number in range(1, count + 1)]


def make_hosts(servers, workers, quota, server_link, worker_link, server_quota):
    return [Host("scheduler", server_link),
            *(Host(name, server_link, server_quota) for name in host_names("server", servers)),
            *(Host(name, worker_link, quota) for name in host_names("worker", workers))]


class Cluster:
    """The processes of one training run. Hosts in `later` are idle until start_server()."""

    def __init__(self, network, plan, directory, later=()):
        self.network = network
        self.servers = [name for name in network.hosts
                        if name.startswith("server") and name not in later]
        self.workers = [name for name in network.hosts if name.startswith("worker")]
        self.members = {}  # processes by host, without the scheduler
        self.run_dir = f"{directory}/run"
        self.address = f"tcp://{network.address('scheduler')}:{PORT}"  # of the scheduler
        self._build = plan.build
        self._sets = [word for pair in self._settings(plan) for word in ("--set", pair)]
        self._start(plan)

    def _start(self, plan):
        self.scheduler = self._launch("scheduler", "--run-dir", self.run_dir, *self._sets)
        wait_for(lambda: os.path.exists(f"{self.run_dir}/scheduler.address"), [self.scheduler],
                 START_DEADLINE_S, "dslide-scheduler to read the data")
        for name in self.servers:
            self.start_server(name)
        for name in self.workers:
            self.members[name] = self._launch(name, *self._access("worker"), "--name", name,
                                              "--data", plan.data)

    def start_server(self, name):
        bind = f"tcp://{self.network.address(name)}:*"
        self.members[name] = self._launch(name, *self._access("server"), "--name", name,
                                          "--bind", bind, *self._sets)

    def _access(self, role):
        """The scheduler's address, or with --set security.encryption=always the role's key."""
        key = f"{self.run_dir}/keys/{role}.key"
        return ("--key", key) if os.path.exists(key) else ("--scheduler", self.address)

    def _launch(self, name, *arguments):
        program = "dslide-" + name.rstrip("0123456789")
        return self.network.start(name, [f"{self._build}/bin/{program}", *arguments],
                                  f"{program} on host {name}")

    def _settings(self, plan):
        return [f"train.data={plan.data}", "train.epochs=1000", "train.evaluate_samples=1",
                "train.heldout=0", "model.hidden=128",
                f"cluster.servers={len(self.servers)}", "cluster.executors=1",
                f"cluster.scheduler_bind={self.address}", "cluster.status_bind=",
                "checkpoint.interval_s=0", "security.encryption=trusted-network", *plan.sets]

    def usage(self):
        """CPU seconds and bytes received and sent, of every member until now."""
        return {name: (process.cpu_seconds(), *self.network.traffic(name))
                for name, process in self.members.items()}

    def progress(self):
        """The progress records written until now, from the first trained sample on."""
        try:
            with open(f"{self.run_dir}/metrics.jsonl") as metrics:
                records = [json.loads(line) for line in metrics.read().split("\n")[:-1]]
        except FileNotFoundError:
            return []
        return [r for r in records if r["event"] == "progress" and r["samples"] > 0]

    def check_running(self):
        for process in (self.scheduler, *self.members.values()):
            process.check_running()

    def stop(self):
        """Stops at once: a second signal skips the checkpoint that the first one asks for."""
        self.scheduler.signal(signal.SIGTERM)
        time.sleep(0.3)
        self.scheduler.end(signal.SIGTERM)

    def precision(self):
        """P@1 in percent; waits until the run has ended by itself."""
        self.scheduler.wait(END_DEADLINE_S)
        with open(f"{self.run_dir}/summary.json") as summary:
            return 100 * json.load(summary)["p_at_1"]


def watch(cluster, seconds):
    """Pairs (progress record, usage() at that time), over `seconds`."""
    seen, heard = [], time.monotonic()
    while len(seen) < 3 or seen[-1][0]["elapsed_s"] - seen[0][0]["elapsed_s"] < seconds:
        for record in cluster.progress()[len(seen):]:
            heard = time.monotonic()
            seen.append((record, cluster.usage()))
        cluster.check_running()
        silence_s = STALL_DEADLINE_S if seen else START_DEADLINE_S
        if time.monotonic() - heard > silence_s:
            cluster.scheduler.fail(f"made no progress for {silence_s} s")
        time.sleep(0.2)
    return seen


def figures(seen, cluster):
    """Figures of the records after the first third of the time, which is for warming up."""
    times = [record["elapsed_s"] for record, _ in seen]
    warm = times[0] + (times[-1] - times[0]) / 3
    steady = [entry for entry, at in zip(seen, times) if at >= warm]
    if len(steady) < 2:
        cluster.scheduler.fail("reported too seldom to measure its speed; give it more --seconds")
    records = [record for record, _ in steady]
    first, last = steady[0][1], steady[-1][1]
    seconds = records[-1]["elapsed_s"] - records[0]["elapsed_s"]
    samples = records[-1]["samples"] - records[0]["samples"]

    def message_bytes(key):
        return sum(record[key] * (record["samples"] - before["samples"])
                   for before, record in zip(records, records[1:])) / samples

    def used(names, field):
        return sum(last[name][field] - first[name][field] for name in names)

    def share_of_quota(names):
        quota = cluster.network.hosts[names[0]].quota
        return used(names, 0) / (seconds * len(names) * quota) if quota else None

    sent = message_bytes("bytes_sent_per_sample")
    received = message_bytes("bytes_received_per_sample")
    return {"samples_per_second": samples / seconds, "measured_s": seconds,
            "bytes_sent_per_sample": sent, "bytes_received_per_sample": received,
            "bytes_per_sample_and_server": (sent + received) / len(cluster.servers),
            "wire_bytes_sent_per_sample": used(cluster.workers, 2) / samples,
            "wire_bytes_received_per_sample": used(cluster.workers, 1) / samples,
            "server_cpu_share": share_of_quota(cluster.servers),
            "worker_cpu_share": share_of_quota(cluster.workers)}


def train(hosts, plan, directory, seconds):
    """Trains on these hosts and returns the figures."""
    with Network(hosts, plan.build, directory) as network:
        cluster = Cluster(network, plan, directory)
        seen = watch(cluster, seconds)
        cluster.stop()
        return figures(seen, cluster)
