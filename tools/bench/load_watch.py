"""Records the servers of a training cluster twice a second: the scheduler's figures, CPU time."""

import json
import statistics
import time
import urllib.error
import urllib.request

from netlab import inside
from training import END_DEADLINE_S, STALL_DEADLINE_S, START_DEADLINE_S

LOOK_S = 0.5
STATUS_PORT = 8080


def follow_together(watches, seconds):
    """Follows all watches until `seconds` after the first sample of the last one."""
    while not all([watch.look_on(seconds) for watch in watches]):
        time.sleep(LOOK_S)


class LoadWatch:
    """Follows a Cluster (training.py) whose scheduler has a status page on STATUS_PORT. Times are
    seconds from the first trained sample on."""

    def __init__(self, cluster):
        self.looks = []  # records, see _look()
        self._cluster = cluster
        self._zero = None
        self._samples, self._moved = 0, None  # last count, and when it changed
        self._leavers = set()

    def follow(self, seconds, actions=()):
        """Follows training until `seconds` after the first sample (None: to the end). `actions`:
        (seconds, function of the cluster), in order; each is called at its time."""
        actions = list(actions)
        while not self.look_on(seconds):
            if actions and self.seconds() >= actions[0][0]:
                actions.pop(0)[1](self._cluster)
            time.sleep(LOOK_S)

    def seconds(self):
        """Since the first sample."""
        return time.monotonic() - self._zero if self._zero else 0

    def look_on(self, seconds):
        """Looks once. Returns whether that was the last time."""
        if seconds is not None:
            self._cluster.scheduler.check_running()
        elif not self._cluster.scheduler.running():
            return True
        self._check_members(seconds)
        status = self._status()
        now = time.monotonic()
        self._moved = self._moved or now
        if status is not None and status["figures"]["samples"] > 0:
            self._zero = self._zero or now
            self._look(status, now - self._zero)
        if status is not None and (status["figures"]["samples"] != self._samples or
                                   status["phase"] == "evaluating"):
            self._samples, self._moved = status["figures"]["samples"], now
        deadline_s = STALL_DEADLINE_S if self.looks else START_DEADLINE_S
        if now - self._moved > deadline_s + (END_DEADLINE_S if seconds is None else 0):
            self._cluster.scheduler.fail(f"made no progress for {deadline_s} s")
        return seconds is not None and self.seconds() >= seconds

    def leaves(self, name):
        """Allows a server to end from now on."""
        self._leavers.add(name)

    def rate(self, begin, end):
        """Samples per second between two times, from the first increase to the last; None without
        two increases. (A slow server alone trains few batches in the time.)"""
        looks = self._between(begin, end)
        came = [look for before, look in zip(looks, looks[1:])
                if look["samples"] != before["samples"]]
        if len(came) < 2:
            return None
        return (came[-1]["samples"] - came[0]["samples"]) / (came[-1]["t"] - came[0]["t"])

    def imbalance(self, begin, end):
        """The busiest server over the mean: median of the scheduler's figures; None without any."""
        # Equal loads: the servers have not reported yet. Each load is already relative to the mean.
        ratios = [max(look["load"].values()) for look in self._between(begin, end)
                  if len(set(look["load"].values())) > 1]
        return statistics.median(ratios) if ratios else None

    def cpu_imbalance(self, begin, end):
        """The same for the servers' CPU time, measured from outside."""
        looks = self._between(begin, end)
        if len(looks) < 2:
            return None
        first, last = looks[0]["cpu_s"], looks[-1]["cpu_s"]
        used = [last[name] - first[name] for name in last if name in first]
        return max(used) / statistics.fmean(used) if used and sum(used) > 0 else None

    def balanced_after(self, limit, seconds=5):
        """When the imbalance first stayed at most `limit` for `seconds`; None: never."""
        since = None
        for look in self.looks:
            good = 0 < max(look["load"].values(), default=0) <= limit
            since = (since if since is not None else look["t"]) if good else None
            if since is not None and look["t"] - since >= seconds:
                return since
        return None

    def plan_changes(self):
        """(seconds, version) of each plan after the first."""
        pairs = zip(self.looks, self.looks[1:])
        return [(after["t"], after["plan_version"]) for before, after in pairs
                if before["plan_version"] != after["plan_version"]]

    def batch_delay(self, begin, end):
        """Milliseconds that the longest batch took beyond the median of the longest before `begin`;
        None if the workers do not report it."""
        before = [look["longest_batch_ms"] for look in self._between(0, begin)]
        during = [look["longest_batch_ms"] for look in self._between(begin, end)]
        before, during = ([ms for ms in side if ms] for side in (before, during))
        return max(during) - statistics.median(before) if before and during else None

    def moves(self):
        """The scheduler's account of moves, {} if it has none."""
        return self.looks[-1]["moves"] if self.looks else {}

    def _between(self, begin, end):
        return [look for look in self.looks if begin <= look["t"] <= end]

    def _look(self, status, t):
        members = status.get("members", [])
        servers = [m for m in members if m.get("role") == "server"]
        workers = [m for m in members if m.get("role") == "worker"]
        self.looks.append({
            "t": t, "samples": status["figures"]["samples"], "plan_version": status["plan_version"],
            "load": {m["name"]: m["load"] for m in servers if m.get("slots") and "load" in m},
            "slots": {m["name"]: m["slots"] for m in servers if "slots" in m},
            "cpu_s": {name: process.cpu_seconds() for name, process in self._servers()},
            "longest_batch_ms": max((m.get("longest_batch_ms", 0) for m in workers), default=0),
            "moves": status.get("moves", {}), "decisions": status.get("decisions", [])})

    def _servers(self):
        return [(name, process) for name, process in self._cluster.members.items()
                if name.startswith("server") and process.running()]

    def _status(self):
        try:
            with inside(self._cluster.network.namespace("scheduler")), urllib.request.urlopen(
                    f"http://127.0.0.1:{STATUS_PORT}/api/status", timeout=2) as page:
                status = json.load(page)
        except urllib.error.HTTPError:
            raise  # the page refuses
        except (urllib.error.URLError, OSError, ValueError):
            return None
        return status if "figures" in status else None  # at first it is empty

    def _check_members(self, seconds):
        """Members may end before the scheduler only if training has an end, or after leaves()."""
        for name, process in self._cluster.members.items():
            if seconds is not None and name not in self._leavers:
                process.check_running()
            elif process.exit_code():
                process.check_running()
