#!/usr/bin/python3
"""dslide doctor names what is wrong with broken machines, disks, networks and keys.

    doctor_test.py BUILD_DIRECTORY [--real-time]

A scheduler and a server are in one network namespace, the machine that is looked at in another.
Needs root, nft, tc with tbf, and faketime, but for --real-time, which leaves the wrong clock out.
"""

import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time

sys.dont_write_bytecode = True
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, f"{ROOT}/tools/bench")

from netlab import Process, inside, run_ip, wait_for  # noqa: E402

SITE, HOME = "10.79.0.1", "10.79.0.2"
SCHEDULER = f"tcp://{SITE}:7700"
SETTINGS = ("train.epochs=1000000", "train.batch=32", "model.hidden=16", "cluster.executors=1",
            "cluster.heartbeat_ms=200", "cluster.status_bind=",
            "cluster.servers=1")


class Bench:
    """Two namespaces, a run, and what doctor says in the second one."""

    def __init__(self, build, directory):
        self.build, self.directory = build, directory
        self.names = {name: f"dslide-{os.getpid()}-{name}" for name in ("site", "home")}
        self.processes = []
        self.failures = []
        self.cases = 0

    def __enter__(self):
        try:
            self._make()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _make(self):
        for name in self.names.values():
            run_ip("netns", "add", name)
            run_ip("-n", name, "link", "set", "lo", "up")
        run_ip("-n", self.names["site"], "link", "add", "eth0", "type", "veth", "peer", "name", "eth0",
               "netns", self.names["home"])
        for name, address in (("site", SITE), ("home", HOME)):
            run_ip("-n", self.names[name], "addr", "add", f"{address}/24", "dev", "eth0")
            run_ip("-n", self.names[name], "link", "set", "eth0", "up")
        with open(f"{self.directory}/train.txt", "w", encoding="utf-8") as file:
            file.write("400 30 20\n" + "".join(f"{i % 20} {i % 30}:1\n" for i in range(400)))
        self.run = self.start_scheduler("scheduler", f"cluster.scheduler_bind={SCHEDULER}")
        with inside(self.names["site"]):
            self.processes.append(Process("server", [
                f"{self.build}/bin/dslide-server", "--key", f"{self.run}/keys/server.key", "--name",
                "server-1", "--bind", f"tcp://{SITE}:7701"], f"{self.directory}/server.log"))
            wait_for(lambda: "[member.join]" in open(f"{self.directory}/scheduler.log").read(), self.processes,
                     60, "the server")

    def start_scheduler(self, name, *settings):
        """A scheduler at the site; its run directory."""
        run = f"{self.directory}/run-of-{name}"
        all_settings = (*SETTINGS, f"train.data={self.directory}/train.txt", *settings)
        sets = [word for setting in all_settings for word in ("--set", setting)]
        with inside(self.names["site"]):
            self.processes.append(Process(name, [
                f"{self.build}/bin/dslide-scheduler", "--run-dir", run, *sets],
                f"{self.directory}/{name}.log"))
            wait_for(lambda: os.path.exists(f"{run}/scheduler.address"), self.processes, 60, name)
        return run

    def __exit__(self, *_):
        for process in reversed(self.processes):
            process.end(9)
        for name in self.names.values():
            subprocess.run(["ip", "netns", "del", name], capture_output=True)

    def key(self, name):
        return f"{self.run}/keys/{name}.key"

    def dslide(self, *words):
        return subprocess.run([f"{self.build}/bin/dslide", *words], capture_output=True, text=True,
                              check=True).stdout

    def doctor(self, *options, before=(), environment=None, namespace="home"):
        """The findings by their check, and the exit code."""
        command = [*before, f"{self.build}/bin/dslide", "doctor", "--json", *options]
        with inside(self.names[namespace]):
            done = subprocess.run(command, capture_output=True, text=True, cwd=self.directory,
                                  env=dict(os.environ, **(environment or {})))
        try:
            return {one["check"]: one for one in json.loads(done.stdout)["findings"]}, done.returncode
        except ValueError:
            return {"": {"level": "", "what": done.stdout + done.stderr, "mend": ""}}, done.returncode

    def expect(self, case, check, level, words, *options, **how):
        """One broken set-up: the check has this level, and says these words."""
        self.cases += 1
        findings, code = self.doctor(*options, **how)
        found = findings.get(check)
        text = "" if found is None else f"{found['what']} -> {found['mend']}"
        problems = any(one["level"] == "PROBLEM" for one in findings.values())
        wanted_code = 1 if level == "PROBLEM" or problems else 0
        first = next((one["check"] for one in findings.values() if one["level"] == "PROBLEM"), None)
        good = (found is not None and found["level"] == level and code == wanted_code and
                all(word in text for word in words) and (level != "PROBLEM" or first == check))
        print(f"{'ok' if good else 'FAILED'}: {case}: {text}", flush=True)
        if not good:
            self.failures.append(f"{case}: exit code {code}, {json.dumps(findings, indent=1)}")

    @contextlib.contextmanager
    def firewall(self, namespace, rules):
        with inside(self.names[namespace]):
            subprocess.run(["nft", f"table ip broken {{ {rules}\n}}\n"], check=True)
        try:
            yield
        finally:
            with inside(self.names[namespace]):
                subprocess.run(["nft", "delete table ip broken"], check=True)


def machine(directory, **files):
    """A made-up root for /proc and /sys."""
    texts = {
        "proc/stat": "cpu  10 0 10 1000 0 0 0 0 0 0\n", "proc/loadavg": "0.1 0.1 0.1 1/100 1\n",
        "proc/meminfo": "MemTotal: 16000000 kB\nMemAvailable: 15000000 kB\n",
        "proc/self/cgroup": "0::/\n", "proc/sys/vm/overcommit_memory": "0\n",
        "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
        **{name.replace("__", "/"): text for name, text in files.items()}}
    root = tempfile.mkdtemp(dir=directory)
    for name, text in texts.items():
        if text is None:
            continue
        os.makedirs(os.path.dirname(f"{root}/{name}"), exist_ok=True)
        with open(f"{root}/{name}", "w", encoding="utf-8") as file:
            file.write(text)
    return {"DSLIDE_MACHINE_ROOT": root}


def machines(bench):
    def case(name, check, words, **files):
        bench.expect(name, check, "note", words,
                     environment=machine(bench.directory, **files))
    thp = "sys__kernel__mm__transparent_hugepage__enabled"
    case("huge pages are off", "huge pages", ["never", "echo madvise"], **{thp: "always madvise [never]\n"})
    case("no huge pages in the kernel", "huge pages", ["has none"], **{thp: None})
    case("a cgroup of 1 GB", "memory", ["1.0 GiB by the cgroup's limit", "cluster.memory_mb"],
         **{"sys__fs__cgroup__memory.max": "1073741824\n"})
    case("half a core", "cores", ["0.5 of", "raise the limit"],
         **{"sys__fs__cgroup__cpu.max": "50000 100000\n"})
    first = min(os.sched_getaffinity(0))
    bench.expect("one CPU allowed", "cores", "ok", ["1 of " if os.cpu_count() > 1 else "1"],
                 before=["taskset", "--cpu-list", str(first)])
    case("512 MB of memory", "memory", ["0.5 GiB"],
         proc__meminfo="MemTotal: 524288 kB\nMemAvailable: 400000 kB\n")
    case("memory that others hold", "memory", ["other processes hold it"],
         proc__meminfo="MemTotal: 16000000 kB\nMemAvailable: 100000 kB\n")
    case("a busy machine", "load", ["other processes"], proc__loadavg="90.5 80 70 1/100 1\n")
    case("strict overcommit", "overcommit", ["sysctl"], proc__sys__vm__overcommit_memory="2\n")
    bench.expect("few open files", "files", "note", ["up to 512", "ulimit"],
                 before=["prlimit", "--nofile=512:512"])


def disks(bench):
    place = f"{bench.directory}/disk"
    os.mkdir(place)

    def mounted(options):
        return ["unshare", "--mount", "sh", "-c",
                f'mount -t tmpfs -o {options} tmpfs {place} && exec "$@"', "sh"]

    check = f"disk of {place}"
    bench.expect("a disk that is mounted read-only", check, "PROBLEM", ["Read-only", "mounted read-only"],
                 "--run-dir", place, before=mounted("ro"))
    bench.expect("a disk that is full", check, "PROBLEM", ["No space left", "make room"], "--run-dir",
                 place, before=mounted("size=64k"))
    bench.expect("a disk with little room", check, "note", ["0.1 GiB free", "make room"], "--run-dir",
                 place, before=mounted("size=100m"))
    os.chmod(bench.directory, 0o755)
    bench.expect("a directory of another user", check, "PROBLEM", ["Permission denied", "the right to"],
                 "--run-dir", place, before=["setpriv", "--reuid=65534", "--clear-groups"])


def networks(bench):
    observer = ("--key", bench.key("observer"))
    bench.expect("a name that is none", "scheduler", "PROBLEM", ["host.invalid", "resolver"],
                 "--scheduler", "tcp://host.invalid:7700")
    bench.expect("no resolver", "scheduler", "PROBLEM", ["resolver"], "--scheduler", "tcp://site:7700",
                 before=["unshare", "--mount", "sh", "-c",
                         'mount --bind /dev/null /etc/resolv.conf && exec "$@"', "sh"])
    bench.expect("an address without tcp://", "scheduler", "PROBLEM", ["10.79.0.1:7700"], "--scheduler",
                 f"{SITE}:7700")
    bench.expect("no process at the port", "scheduler", "PROBLEM", ["refused", "is the port"],
                 "--scheduler", f"tcp://{SITE}:7999")
    bench.expect("no such machine", "scheduler", "PROBLEM", ["10.79.0.9", "no route"], "--scheduler",
                 "tcp://10.79.0.9:7700")
    bench.expect("another network", "scheduler", "PROBLEM", ["unreachable", "no route"], "--scheduler",
                 "tcp://192.0.2.9:7700")
    bench.expect("an address file that is not there yet", "scheduler", "PROBLEM", ["when it starts"],
                 "--scheduler", f"file://{bench.directory}/none")
    with bench.firewall("site", "chain rules { type filter hook input priority 0; tcp dport 7700 drop; }"):
        bench.expect("a firewall that drops", "scheduler", "PROBLEM", ["timed out", "firewall drops"],
                     *observer)
    with bench.firewall("home", "chain rules { type filter hook output priority 0; tcp dport 7700 drop; }"):
        bench.expect("one's own firewall", "scheduler", "PROBLEM", ["7700", "firewall"], *observer)
    with bench.firewall("site", "chain rules { type filter hook input priority 0; tcp dport 7701 drop; }"):
        bench.expect("a server behind a firewall", "server-1", "PROBLEM", ["7701", "firewall drops"],
                     *observer)
    run_ip("-n", bench.names["home"], "link", "set", "eth0", "down")
    bench.expect("an interface that is down", "scheduler", "PROBLEM", ["unreachable", "network up"],
                 *observer)
    run_ip("-n", bench.names["home"], "link", "set", "eth0", "up")


def clocks(bench):
    bench.expect("a clock an hour ahead", "clocks", "PROBLEM", ["ahead of the scheduler's", "chrony"], "--key",
                 bench.key("observer"), before=["faketime", "-f", "+1h"],
                 environment={"FAKETIME_DONT_FAKE_MONOTONIC": "1"})


def serve_nothing(listener, stop):
    """Another program at a port: it talks as a web server does."""
    listener.settimeout(0.2)
    while not stop.is_set():
        with contextlib.suppress(OSError):
            connection, _ = listener.accept()
            connection.settimeout(1)
            with contextlib.suppress(OSError):
                connection.recv(100)
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            connection.close()


def links(bench, well):
    """The link to the server: measured, and as slow as it is made. `well`: findings without that."""
    check = "server-1: link"
    if well.get(check, {}).get("level") != "ok":
        bench.failures.append(f"a link that is well: {json.dumps(well, indent=1)}")
    shape = ["tc", "-n", bench.names["home"], "qdisc"]
    subprocess.run([*shape, *"add dev eth0 root tbf rate 5mbit burst 5kb latency 1s".split()], check=True)
    bench.expect("a slow link", check, "note", ["Mbit/s", "Slow links"], "--key", bench.key("observer"))
    findings, _ = bench.doctor("--key", bench.key("observer"))
    speed = float(findings[check]["what"].split(", ")[1].split(" ")[0])
    if not 1 < speed < 6:  # a busy machine measures less
        bench.failures.append(f"a link of 5 Mbit/s: {findings[check]}")
    subprocess.run([*shape, *"del dev eth0 root".split()], check=True)
    findings, code = bench.doctor("--all", "--key", bench.key("observer"))
    if check not in findings or "ledger: disk" not in findings:
        bench.failures.append(f"links and disks of all: {code} {json.dumps(findings, indent=1)}")


def members(bench):
    answer = "scheduler's answer"
    bench.expect("no key for an encrypted run", answer, "PROBLEM", ["no answer", "give --key"], "--scheduler",
                 SCHEDULER)
    bench.dslide("key", "init", f"{bench.directory}/other", "--scheduler", SCHEDULER)
    bench.expect("the key of another run", answer, "PROBLEM", ["is the key of this run"], "--key",
                 f"{bench.directory}/other/keys/observer.key")
    bench.dslide("key", "allow", bench.run, "--role", "observer", "--name", "gone")
    with open(bench.key("gone"), encoding="utf-8") as file:
        gone = file.read()
    bench.dslide("key", "revoke", bench.run, "--name", "gone")
    path = f"{bench.directory}/gone.key"
    with open(path, "w", encoding="utf-8") as file:
        file.write(gone)
    os.chmod(path, 0o600)
    wait_for(lambda: bench.doctor("--key", path)[1] == 1, bench.processes, 30, "the revocation")
    bench.expect("a key that was revoked", answer, "PROBLEM", ["revoked or expired"], "--key", path)
    os.chmod(path, 0o644)
    bench.expect("a key that others may read", "scheduler", "PROBLEM", ["chmod 600"], "--key", path)
    bench.expect("a worker's key", "key", "note", ["is let in", "observer.key"], "--key",
                 bench.key("worker"))
    bench.expect("a server in place of the scheduler", answer, "PROBLEM", ["no scheduler with this key"], "--key",
                 bench.key("observer"), "--scheduler", f"tcp://{SITE}:7701")
    with inside(bench.names["site"]):
        listener = socket.create_server((SITE, 7800))
    stop = threading.Event()
    thread = threading.Thread(target=serve_nothing, args=(listener, stop))
    thread.start()
    try:
        bench.expect("another program at the port", answer, "PROBLEM", ["another program's"], "--scheduler",
                     f"tcp://{SITE}:7800")
    finally:
        stop.set()
        thread.join()
        listener.close()


def plaintext(bench):
    trusted = "security.encryption=trusted-network"
    bench.start_scheduler("open", "cluster.scheduler_bind=tcp://*:7900",
                          f"cluster.scheduler_advertise=tcp://{SITE}:7900", trusted)
    words = ["not encrypted", f"{SITE}:7900", "security.encryption=always"]
    bench.expect("plaintext on a network", "plaintext", "note", words, "--scheduler", f"tcp://{SITE}:7900")
    bench.expect("the same by loopback", "plaintext", "note", words, "--scheduler", "tcp://127.0.0.1:7900",
                 namespace="site")
    bench.start_scheduler("closed", "cluster.scheduler_bind=tcp://127.0.0.1:7901")
    bench.expect("plaintext on loopback", "plaintext", "ok", ["this machine alone"], "--scheduler",
                 "tcp://127.0.0.1:7901", namespace="site")


def listening(bench):
    server = ("--key", bench.key("server"))
    back = "reached from the scheduler"
    findings, code = bench.doctor(*server, "--bind", "tcp://*:7701")
    print(findings.get("listening"), findings.get(back))
    if code != 0 or findings.get(back, {}).get("level") != "ok":
        bench.failures.append(f"a server's place that is good: {code} {findings}")
    with bench.firewall("home", "chain rules { type filter hook input priority 0; tcp dport 7701 drop; }"):
        bench.expect("a firewall in one direction", back, "PROBLEM", ["7701", "open the port"], *server,
                     "--bind", "tcp://*:7701")
    # Another port: the scheduler still looks for who asked before.
    bench.expect("an address of another interface", back, "PROBLEM", ["172.16.0.1"], *server, "--bind",
                 "tcp://*:7702", "--advertise", "tcp://172.16.0.1:7702")
    with inside(bench.names["home"]):
        taken = socket.create_server((HOME, 7705))
    bench.expect("a port that is taken", "listening", "PROBLEM", ["in use", "another process"], "--bind",
                 f"tcp://{HOME}:7705")
    taken.close()
    bench.expect("an address that is not this machine's", "listening", "PROBLEM", ["10.9.9.9"], "--bind",
                 "tcp://10.9.9.9:7701")


def main():
    with tempfile.TemporaryDirectory(prefix="dslide-doctor-") as directory:
        with Bench(os.path.abspath(sys.argv[1]), directory) as bench:
            findings, code = bench.doctor("--key", bench.key("observer"))
            if code != 0:
                bench.failures.append(f"a machine that is well: {code} {json.dumps(findings, indent=1)}")
            links(bench, findings)
            machines(bench)
            disks(bench)
            networks(bench)
            if "--real-time" not in sys.argv[2:]:
                clocks(bench)
            members(bench)
            listening(bench)
            plaintext(bench)
            with open(f"{directory}/scheduler.log", encoding="utf-8") as file:
                alarms = [line for line in file if "[member.refuse]" in line or "[server.refuse]" in line]
            if alarms:
                bench.failures.append("doctor's own looks are in the scheduler's log: " + "".join(alarms))
            print(f"{bench.cases} broken set-ups")
            if bench.failures:
                raise SystemExit("doctor_test: " + "\n".join(bench.failures))


if __name__ == "__main__":
    main()
