#!/usr/bin/python3
"""A volunteer behind NAT: it needs the join string only, and survives a cut and a change of address.

    volunteer_test.py BUILD_DIRECTORY

Three network namespaces: the site with a run of dslide train, a router that masquerades, and the
volunteer's home. The site has no route to the home. Needs root and nft.
"""

import contextlib
import glob
import json
import os
import signal
import subprocess
import sys
import tempfile
import urllib.request

sys.dont_write_bytecode = True
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, f"{ROOT}/tools/bench")

from netlab import Process, inside, run_ip, wait_for  # noqa: E402

SITE, SCHEDULER = "10.77.0.2", "tcp://10.77.0.2:7700"
DEADLINE_S = 120
NAT = """table ip nat { chain post { type nat hook postrouting priority srcnat;
         oifname "wan" masquerade; }; }"""
SETTINGS = ("train.epochs=1000000", "train.batch=32", "model.hidden=32", "cluster.executors=1",
            "cluster.heartbeat_ms=200", "checkpoint.interval_s=0",
            f"cluster.scheduler_bind={SCHEDULER}", f"cluster.status_bind=tcp://127.0.0.1:7780")


class Net:
    """The namespaces site, router and home; a context manager that removes them."""

    def __init__(self):
        self._names = {name: f"dslide-{os.getpid()}-{name}" for name in ("site", "router", "home")}

    def __enter__(self):
        try:
            self._make()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _make(self):
        for name in self._names.values():
            run_ip("netns", "add", name)
        for name in self._names:
            self.ip(name, "link", "set", "lo", "up")
        self._join("site", "eth0", "router", "wan")
        self._join("home", "eth0", "router", "lan")
        self.ip("site", "addr", "add", f"{SITE}/24", "dev", "eth0")
        self.ip("router", "addr", "add", "192.168.77.1/24", "dev", "lan")
        self.set_addresses("10.77.0.1", "192.168.77.2")
        with inside(self._names["router"]):
            subprocess.run(["sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward"], check=True)
            subprocess.run(["nft", NAT], check=True)

    def __exit__(self, *_):
        for name in self._names.values():
            with contextlib.suppress(Exception):
                run_ip("netns", "del", name)

    def _join(self, one, device, other, peer):
        run_ip("-n", self._names[one], "link", "add", device, "type", "veth", "peer", "name", peer,
               "netns", self._names[other])
        self.ip(one, "link", "set", device, "up")
        self.ip(other, "link", "set", peer, "up")

    def ip(self, name, *words):
        run_ip("-n", self._names[name], *words)

    def set_addresses(self, router, home):
        self.ip("router", "addr", "flush", "dev", "wan")
        self.ip("home", "addr", "flush", "dev", "eth0")
        self.ip("router", "addr", "add", f"{router}/24", "dev", "wan")
        self.ip("home", "addr", "add", f"{home}/24", "dev", "eth0")
        self.ip("home", "route", "add", "default", "via", "192.168.77.1")

    def start(self, name, log, *command):
        return Process(log, ["nsenter", f"--net=/var/run/netns/{self._names[name]}", *command],
                       f"{os.getcwd()}/{log}.log")

    def status(self):
        with inside(self._names["site"]), contextlib.suppress(OSError, ValueError):
            with urllib.request.urlopen(f"http://127.0.0.1:7780/api/status", timeout=2) as page:
                return json.load(page)
        return {}

    def workers(self):
        """Samples of each; None: the scheduler does not answer."""
        members = self.status().get("members")
        if members is None:
            return None
        return [member["samples"] for member in members if member["role"] == "worker"]


def state_at_home(binaries):
    listed = subprocess.run([f"{binaries}/dslide", "status", "--workers", "--json"], capture_output=True,
                            text=True, check=True)
    return json.loads(listed.stdout)["workers"][0]["state"]


def run(net, binaries, processes):
    def start(name, log, *command):
        processes.append(net.start(name, log, *command))
        return processes[-1]

    with open("train.txt", "w") as file:
        file.write("2000 300 200\n")
        for i in range(2000):
            file.write(f"{i % 200} {i % 200}:1 {200 + i % 97}:0.5\n")
    sets = [word for pair in (*SETTINGS, "train.data=train.txt") for word in ("--set", pair)]
    train = start("site", "train", f"{binaries}/dslide", "train", "--run-dir", "run", "--servers", "1",
                  "--workers", "0", *sets)
    wait_for(lambda: os.path.exists("run/scheduler.address"), [train], DEADLINE_S, "the scheduler")
    allowed = subprocess.run([f"{binaries}/dslide", "key", "allow", "run", "--role", "worker",
                              "--name", "alice"], capture_output=True, text=True, check=True)
    join = next(word for word in allowed.stdout.split() if word.startswith("dslide://"))
    volunteer = start("home", "volunteer", f"{binaries}/dslide-worker", join)
    running = list(processes)
    wait_for(lambda: any(net.workers() or []), running, DEADLINE_S, "the volunteer to train")

    net.ip("router", "link", "set", "lan", "down")
    wait_for(lambda: "is silent; dialling again" in volunteer.output(), running, DEADLINE_S,
             "the volunteer to miss the scheduler")
    wait_for(lambda: state_at_home(binaries) == "waiting", running, DEADLINE_S, "the volunteer to say so")
    wait_for(lambda: net.workers() == [], running, DEADLINE_S, "the scheduler to miss it")
    net.set_addresses("10.77.0.9", "192.168.77.3")
    net.ip("router", "link", "set", "lan", "up")
    wait_for(lambda: any(net.workers() or []), running, DEADLINE_S, "the volunteer to train again")

    volunteer.signal(signal.SIGTERM)
    volunteer.wait(DEADLINE_S)
    train.end(signal.SIGTERM)  # its children, too


def main():
    binaries = f"{os.path.abspath(sys.argv[1])}/bin"
    processes = []
    with tempfile.TemporaryDirectory(prefix="dslide-volunteer-") as directory, Net() as net:
        os.chdir(directory)
        os.makedirs("machine/proc")  # nothing is known of it, so nobody uses it
        os.makedirs("user")
        os.environ |= {"DSLIDE_MACHINE_ROOT": f"{directory}/machine",
                       "XDG_RUNTIME_DIR": f"{directory}/user", "XDG_STATE_HOME": f"{directory}/user",
                       "DSLIDE_FAILPOINTS": "worker.before-report=delay:10"}
        try:
            run(net, binaries, processes)
        except BaseException:
            for process in processes:
                print(f"--- {process.title}\n{process.output()[-3000:]}")
            for log in glob.glob("run/logs/*.log"):
                with open(log) as file:
                    print(f"--- {log}\n{file.read()[-3000:]}")
            raise
        finally:
            for process in processes:
                process.end(signal.SIGKILL)
            os.chdir("/")


if __name__ == "__main__":
    main()
