#!/usr/bin/python3 -B
"""The systemd units on a Debian that systemd has booted, from the package: a run is begun, drained, killed
and continued as the units say.

    units_test.py BUILD_DIRECTORY
"""

import json
import os
import shutil
import sys

from booted_system import BootedSystem
from debian_root import ROOT, run

RUN = "/var/lib/dslide/run"
CONFIG = """
[common]
[model]
hidden = 32
[train]
data = /usr/share/dslide/data/gnd-subset/train.jsonl.zst
epochs = 100000
[cluster]
servers = 2
executors = 1
scheduler_bind = tcp://127.0.0.1:7700
status_bind =
[checkpoint]
interval_s = 0
[security]
encryption = always
"""


class Units:
    """What systemd says of the units, and the run of the members."""

    def __init__(self, system):
        self.system = system

    def show(self, unit, name):
        return self.system.run_in("systemctl", "show", "--value", "--property", name, unit).strip()

    def systemctl(self, *words):
        self.system.run_in("systemctl", *words)

    def log(self, unit):
        return self.system.run_in("journalctl", "--quiet", "--no-pager", "--output=cat", "-u", unit)

    def check(self, what, holds):
        if holds:
            print(f"ok: {what}", flush=True)
            return
        units = self.system.try_in("systemctl", "list-units", "--all", "--no-pager", "dslide*").stdout
        logs = self.system.try_in("journalctl", "--no-pager", "-n", "60").stdout
        raise SystemExit(f"units_test: {what}\n{units}\n{logs}")

    def wait(self, holds, what):
        try:
            self.system.wait(holds, what)
        except RuntimeError as error:
            self.check(str(error), False)
        print(f"ok: {what}", flush=True)

    def active(self, unit):
        return self.show(unit, "ActiveState") == "active"

    def ended(self, unit):
        """Result, and the exit code of the process."""
        return self.show(unit, "Result"), int(self.show(unit, "ExecMainStatus"))

    def status(self):
        done = self.system.try_in("dslide", "status", "--json", "--key", f"{RUN}/keys/observer.key")
        return json.loads(done.stdout) if done.returncode == 0 else {}

    def samples(self):
        return self.status().get("figures", {}).get("samples", 0)

    def slots(self, name):
        return sum(one.get("slots", 0) for one in self.status().get("members", [])
                   if one["role"] == "server" and one["name"] == name)

    def restarts(self, unit):
        return int(self.show(unit, "NRestarts"))

    def trains(self, what):
        self.wait(lambda: self.samples() > 0, f"{what}: the status answers")
        before = self.samples()
        self.wait(lambda: self.samples() > before > 0, what)


def install(system, package):
    shutil.copy(package, f"{system.path}/root/dslide.deb")
    system.run("apt-get", "update")
    system.run("apt-get", "install", "-y", "--no-install-recommends", "./dslide.deb")
    os.makedirs(f"{system.path}/etc/dslide")
    for name, text in (("server.conf", "DSLIDE_OPTIONS=--bind tcp://127.0.0.1:*\n"),
                       ("worker.conf", "")):
        with open(f"{system.path}/etc/dslide/{name}", "w", encoding="utf-8") as file:
            file.write(text)


def configure(system, text):
    with open(f"{system.path}/etc/dslide/cluster.ini", "w", encoding="utf-8") as file:
        file.write(text)


def begin(units):
    """A run from nothing, as configs/README.md says."""
    system = units.system
    # A unit that is wanted by another one is remembered when it has ended.
    units.systemctl("enable", "dslide-scheduler", "dslide-server@a", "dslide-server@b", "dslide-worker@w1")
    configure(system, CONFIG.replace("epochs", "epoch"))
    units.systemctl("start", "dslide-scheduler")
    units.wait(lambda: units.show("dslide-scheduler", "ActiveState") == "failed", "a wrong key ends the unit")
    units.check("by exit code 2, without another start", units.ended("dslide-scheduler") ==
                ("exit-code", 2) and units.show("dslide-scheduler", "NRestarts") == "0")
    units.check("which names the mend", "did you mean train.epochs?" in units.log("dslide-scheduler"))
    units.systemctl("reset-failed", "dslide-scheduler")

    units.systemctl("start", "dslide-server@a")
    units.check("without its key a server is not started", not units.active("dslide-server@a"))

    configure(system, CONFIG)
    units.systemctl("start", "dslide-scheduler")
    units.wait(lambda: system.try_in("test", "-e", f"{RUN}/scheduler.address").returncode == 0,
               "the scheduler is ready, and the keys name its address")
    user = system.run_in("stat", "-c", "%U %a", f"{RUN}/keys/server.key").split()
    units.check(f"the run is not root's: {user}", user[0] != "root" and user[1] == "600")
    for role in ("server", "worker"):
        system.run_in("install", "-m", "0600", f"{RUN}/keys/{role}.key", f"/etc/dslide/{role}.key")
    units.systemctl("start", "dslide-server@a", "dslide-server@b", "dslide-worker@w1")
    units.wait(lambda: units.samples() > 0, "training")


def kill_and_drain(units):
    units.systemctl("kill", "--signal=SIGKILL", "dslide-worker@w1")
    units.wait(lambda: units.restarts("dslide-worker@w1") > 0 and
               units.active("dslide-worker@w1"), "a worker that is killed is started again")
    restarts = units.restarts("dslide-worker@w1")
    units.trains("and training goes on")

    units.systemctl("stop", "dslide-worker@w1")
    units.check("SIGTERM ends a worker with 0", units.ended("dslide-worker@w1") == ("success", 0) and
                units.restarts("dslide-worker@w1") == restarts)
    units.systemctl("start", "dslide-worker@w1")
    units.trains("with a worker that was started again")

    slots = units.slots("a") + units.slots("b")
    units.systemctl("stop", "dslide-server@b")
    units.check("SIGTERM ends a server with 0", units.ended("dslide-server@b") == ("success", 0))
    units.check("which has handed its slots over", units.slots("a") == slots > 0)
    units.trains("and training goes on with one server")
    units.check("without a step back", units.status()["recoveries"] == 0)


def stop_and_go_on(units):
    """The scheduler's stop writes a checkpoint; members wait for its next start."""
    trained = units.samples()
    units.systemctl("stop", "dslide-scheduler")
    ended = units.ended("dslide-scheduler")
    units.check(f"a stop writes a checkpoint: {ended}, which is no failure", ended == ("success", 85))
    units.wait(lambda: units.restarts("dslide-server@a") > 0 and units.restarts("dslide-worker@w1") > 0,
               "members are started again, and again")
    units.systemctl("start", "dslide-scheduler", "dslide-server@b")
    units.wait(lambda: units.samples() > trained, "the run goes on where it was")
    units.systemctl("kill", "--signal=SIGKILL", "dslide-scheduler")
    units.wait(lambda: units.restarts("dslide-scheduler") > 0 and units.samples() > trained,
               "a scheduler that is killed is started again, and goes on")
    units.systemctl("stop", "dslide-scheduler", "dslide-server@a", "dslide-server@b", "dslide-worker@w1")
    said = units.system.run_in("dslide", "ledger", "verify", RUN).split()
    units.check("nothing counts twice, by the ledger", said[said.index("duplicated") + 1] == "0")


def main():
    build = os.path.abspath(sys.argv[1])
    package = os.path.join(ROOT, run(f"{ROOT}/tools/package/deb", build, cwd=ROOT).split()[-1])
    with BootedSystem() as system:
        install(system, package)
        system.boot()
        units = Units(system)
        begin(units)
        kill_and_drain(units)
        stop_and_go_on(units)


if __name__ == "__main__":
    main()
