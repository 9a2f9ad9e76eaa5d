#!/usr/bin/python3
"""What an operator does with runs and sees of them: real processes on loopback.

    operations_test.py BUILD_DIRECTORY
"""

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback

sys.dont_write_bytecode = True
DEADLINE_S = 120  # longer than anything takes; a test that hits it has failed
SLOWLY = {"DSLIDE_FAILPOINTS": "worker.before-report=delay:20"}
BIN = ""


def wait_for(condition, what):
    end = time.monotonic() + DEADLINE_S
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.02)
    raise AssertionError(f"waited in vain for {what}")


def check(condition, what):
    if not condition:
        raise AssertionError(str(what))


def text_of(path):
    with contextlib.suppress(OSError), open(path, encoding="utf-8", errors="replace") as file:
        return file.read()
    return ""


class Case:
    """A directory with data, and the processes that were started there."""

    def __init__(self):
        self.path = tempfile.mkdtemp(prefix="dslide-operations-")
        self.processes = []
        self.sockets = []
        self.started = 0
        with open(self.at("train.txt"), "w", encoding="utf-8") as file:
            file.write("2000 30 20\n" + "".join(f"{i % 20} {i % 30}:1\n" for i in range(2000)))
        self.run = self.at("run")

    def at(self, name):
        return os.path.join(self.path, name)

    def sets(self, *settings):
        defaults = (f"train.data={self.at('train.txt')}", "train.batch=32", "model.hidden=16",
                    "cluster.executors=1", "cluster.heartbeat_ms=200", "cluster.status_bind=")
        return [word for setting in (*defaults, *settings) for word in ("--set", setting)]

    def start(self, program, *words, environment=None):
        self.started += 1
        log = self.at(f"log-{self.started}")
        with open(f"{log}.out", "wb") as out, open(f"{log}.err", "wb") as err:
            process = subprocess.Popen([f"{BIN}/{program}", *words], stdin=subprocess.DEVNULL, stdout=out,
                                       stderr=err, env={**os.environ, **(environment or {})})
        process.log = log
        self.processes.append(process)
        return process

    def call(self, program, *words, code=0, environment=None):
        """Standard output, and standard error, of a command that has to end with `code`."""
        done = subprocess.run([f"{BIN}/{program}", *words], stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=DEADLINE_S, env={**os.environ, **(environment or {})})
        check(done.returncode == code, f"{program} {words}: exit code {done.returncode}, not {code}: "
              f"{done.stdout} {done.stderr}")
        return done.stdout, done.stderr

    def train(self, *settings, words=(), environment=SLOWLY):
        return self.start("dslide", "train", "--run-dir", self.run, "--servers", "2", "--workers", "1",
                          *self.sets(*settings), *words, environment=environment)

    def status(self):
        done = subprocess.run([f"{BIN}/dslide", "status", self.run, "--json"], capture_output=True,
                              text=True, timeout=DEADLINE_S)
        return json.loads(done.stdout) if done.returncode == 0 else {}

    def samples(self):
        return self.status().get("figures", {}).get("samples", 0)

    def trains(self):
        wait_for(lambda: os.path.exists(f"{self.run}/scheduler.address"), "the scheduler")
        wait_for(lambda: self.samples() > 0, "samples")

    def checkpoints(self):
        in_run = f"{self.run}/checkpoint"
        return sorted(name for name in os.listdir(in_run)
                      if os.path.exists(f"{in_run}/{name}/manifest")) if os.path.isdir(in_run) else []

    def end(self, process, number=signal.SIGTERM):
        process.send_signal(number)
        return process.wait(DEADLINE_S)

    def close(self):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
                process.wait()
        for taken in self.sockets:
            taken.close()
        shutil.rmtree(self.path, ignore_errors=True)


def port_of_nobody(case):
    """A port that nobody listens at, and that no other process gets until the case ends."""
    taken = socket.socket()
    case.sockets.append(taken)
    taken.bind(("127.0.0.1", 0))
    return taken.getsockname()[1]


def finished(case):
    """A finished run that is started again says so, and ends with 0 at once."""
    train = case.train("train.epochs=2", environment={})
    check(train.wait(DEADLINE_S) == 0, text_of(f"{train.log}.err"))
    again = ("--run-dir", case.run, "--begin-or-resume", *case.sets("train.epochs=2"))
    out, err = case.call("dslide-scheduler", *again)
    check("the run is finished, 2 epochs trained" in out and not err, out + err)
    out, _ = case.call("dslide", "train", "--resume", "--run-dir", case.run)
    check("the run is finished" in out and "cluster:" not in out, out)
    out, _ = case.call("dslide", "train", "--resume", "--run-dir", case.run, "--set", "train.epochs=3")
    check("run directory" in out, out)
    _, err = case.call("dslide", "status", case.run, code=2)
    check(f"{case.run}: the run has finished" in err, err)


def cheap_first(case):
    """What can be found out without the data is said before it is read."""
    os.makedirs(case.run)
    with open(f"{case.run}/config.ini", "w", encoding="utf-8") as file:
        file.write(f"[train]\ndata = {case.at('absent.txt')}\n")
    _, err = case.call("dslide-scheduler", "--resume", "--run-dir", case.run, code=2)
    check("checkpoint" in err and "absent.txt" not in err, err)
    _, err = case.call("dslide-scheduler", "--run-dir", case.at("new"), code=2, *(), *case.sets(
        f"train.data={case.at('absent.txt')}", f"train.test={case.at('missing.txt')}"))
    check("train.test: " in err and "missing.txt" in err, err)
    check(not os.path.exists(case.at("new")), "a refused run leaves nothing")


def logs(case):
    """With DSLIDE_LOG=json all lines are JSON; another value is refused in one line."""
    for program, words in (("dslide-worker", ("--scheduler", "tcp://127.0.0.1:1")),
                           ("dslide", ("status", case.run))):
        _, err = case.call(program, *words, code=2, environment={"DSLIDE_LOG": "xml"})
        check(err.count("\n") == 1 and "DSLIDE_LOG = xml" in err, err)
    address = f"tcp://127.0.0.1:{port_of_nobody(case)}"
    worker = case.start("dslide-worker", "--scheduler", address, environment={"DSLIDE_LOG": "json"})
    wait_for(lambda: '"scheduler.dial"' in text_of(f"{worker.log}.err"), "the worker")
    check(case.end(worker) == 0, "a worker that is stopped before it has joined ends with 0")
    server = case.start("dslide-server", "--scheduler", address, environment={"DSLIDE_LOG": "json"})
    wait_for(lambda: '"server.listen"' in text_of(f"{server.log}.err"), "the server")
    check(case.end(server) == 75, "a server that is stopped before it has joined ends with 75")
    scheduler = case.start("dslide-scheduler", "--run-dir", case.run, *case.sets(
        "cluster.scheduler_bind=tcp://127.0.0.1:*", "cluster.join_timeout_s=1"),
        environment={"DSLIDE_LOG": "json"})
    check(scheduler.wait(DEADLINE_S) == 75, "no servers come")
    for process in worker, server, scheduler:
        lines = (text_of(f"{process.log}.err") + text_of(f"{process.log}.out")).splitlines()
        check(len(lines) > 1, "lines")
        for line in lines:
            record = json.loads(line)
            check({"time", "level", "role", "name", "code", "message"} <= set(record), line)
    last = json.loads(text_of(f"{scheduler.log}.err").splitlines()[-1])
    check(last["level"] == "error" and last["role"] == "scheduler", last)
    out = text_of(f"{scheduler.log}.out")
    check("have 0 of 1 server" in out and "2000 samples" in out, out)


def views(case):
    """status, events and doctor --all by a run directory; what the run waits for; doctor leaves no alarms."""
    train = case.train("train.epochs=100000", "checkpoint.interval_s=1", "cluster.takeover_s=0")
    case.trains()
    wait_for(case.checkpoints, "a checkpoint")
    out, _ = case.call("dslide", "status", "--events", case.run)
    for word in "joined", "slot plan 1", "checkpoint ":
        check(word in out, out)
    check("per lease" not in out, out)
    wait_for(lambda: "per lease" in case.call("dslide", "status", "--events", case.run, "--all")[0], "tuning")
    wait_for(lambda: re.search(r"epoch \d+ done", case.call("dslide", "status", "--events", case.run)[0]), "an epoch")
    out, _ = case.call("dslide", "status", f"{case.run}/scheduler.address")
    check(out.startswith("training, epoch ") and "samples/s" in out and "last events\n" in out, out)
    _, err = case.call("dslide", "status", case.path, code=2)
    check("has no scheduler.address" in err, err)
    _, err = case.call("dslide", "status", code=2)
    check("run directory" in err, err)

    report = json.loads(case.call("dslide", "doctor", "--all", case.run, "--json")[0])
    found = {one["check"]: one for one in report["findings"]}
    for name in ("run", "server-1: memory", "server-2: last heard", "worker-1: work", "clocks", "version",
                 "server-1"):
        check(found.get(name, {}).get("level") == "ok", f"{name}: {json.dumps(found, indent=1)}")

    log = f"{case.run}/logs/scheduler.log"
    address = text_of(f"{case.run}/scheduler.address").strip()
    out, _ = case.call("dslide", "doctor", "--bind", "tcp://127.0.0.1:*", "--scheduler", address)
    check("reached from the scheduler" in out, out)
    since = case.samples()  # more than an applicant is tried for: 3 s
    seen = time.monotonic()
    wait_for(lambda: time.monotonic() - seen > 4 and case.samples() > since, "training")
    check(".refuse]" not in text_of(log) and " warning " not in text_of(log), text_of(log))

    # A server that is gone, with nobody to take its place.
    pids = subprocess.run(["pgrep", "-P", str(train.pid), "-f", "dslide-server"], capture_output=True,
                          text=True).stdout.split()
    os.kill(int(pids[0]), signal.SIGSTOP)
    waits = wait_for(lambda: (lambda s: s if s.get("waits") else None)(case.status()), "the run to wait")
    check(waits["eta_s"] == -1 and waits["figures"]["samples per second"] == 0, waits["eta_s"])
    out, _ = case.call("dslide", "status", case.run)
    check(out.startswith("waiting for servers, epoch ") and ": waiting for server-" in out, out)
    check("the run stops, to be resumed" in out.splitlines()[0] and "ETA" not in out.splitlines()[0], out)
    out, _ = case.call("dslide", "doctor", "--all", case.run, code=1)
    check("PROBLEM" in out and "-> start what it waits for" in out, out)
    out, _ = case.call("dslide", "status", "--events", case.run)
    check(re.search(r"server-\d at .* taken for dead; waiting 300 s for it or another server; then the run "
                    r"stops, to be resumed", out), out)
    os.kill(int(pids[0]), signal.SIGCONT)
    case.end(train)


def hooks(case):
    """A hook that fails twice is run again until it is good; its figures are in status."""
    tries, copies = case.at("tries"), case.at("copies")
    os.makedirs(copies)
    hook = (f'echo x >>{tries}; [ $(wc -l <{tries}) -gt 2 ] || exit 3; [ "$1" = "$DSLIDE_CHECKPOINT" ] && '
            # As configs/README.md has it.
            f'cd "$1"/.. && cp -r "$(basename "$1")" $(ls | grep -e ^preprocessor- -e ^label-names) {copies}/')
    train = case.train("train.epochs=100000", "checkpoint.interval_s=1", f"checkpoint.hook={hook}",
                       f"checkpoint.shard_hook=test -d \"$DSLIDE_SHARD\" && echo \"$1\" >>{case.at('shards')}")
    case.trains()
    status = wait_for(lambda: (lambda s: s if s.get("hook", {}).get("done") else None)(case.status()),
                      "the hook's success")
    check(status["hook"]["failures"] == 2 and status["hook"]["in_a_row"] == 0, status["hook"])
    check(status["ledger_sync_ms"] > 0, "the ledger's disk is known")
    wait_for(lambda: all(one.get("disk_sync_ms", 0) > 0 for one in case.status()["members"]
                         if one["role"] == "server"), "the servers' disks to be known")
    found, _ = case.call("dslide", "doctor", "--all", case.run)
    for line in ("ledger: disk", "server-1: disk", "server-2: link"):
        check(line in found, found)
    log = text_of(f"{case.run}/logs/scheduler.log")
    check("checkpoint.hook failed with " in log and "exit code 3, 2 times in a row" in log and
          "checkpoint.hook: good again" in log, log)
    check("checkpoint.hook: " in case.call("dslide", "status", case.run)[0], "status shows the hook")
    check("checkpoint.hook" not in text_of(f"{case.run}/logs/worker-1.log"), "members do not know it")
    check("hook = " in text_of(f"{case.run}/config.ini"), "a resumed run knows it")
    check(case.end(train) == 85, text_of(f"{train.log}.err"))
    last = case.checkpoints()[-1]
    check(last in os.listdir(copies), f"the last checkpoint {last} is copied: {os.listdir(copies)}")
    check(text_of(f"{case.run}/hook.done").strip() == last, "hook.done")
    check(last in text_of(case.at("shards")), "the servers' hooks have run")
    case.call("dslide", "checkpoint", "verify", f"{copies}/{last}")


def slow_hook(case):
    """A hook without an end holds up nothing, and what it reads stays."""
    train = case.train("train.epochs=100000", "checkpoint.interval_s=1", "checkpoint.keep=1",
                       f"checkpoint.hook=basename \"$1\" >{case.at('name')}; exec sleep 1000")
    case.trains()
    held = wait_for(lambda: text_of(case.at("name")).strip(), "the hook")
    # Others come and go meanwhile.
    wait_for(lambda: case.checkpoints() and case.checkpoints()[-1] > held and len(case.checkpoints()) == 2,
             "a later checkpoint")
    newest = case.checkpoints()[-1]
    wait_for(lambda: case.checkpoints()[-1] > newest and len(case.checkpoints()) == 2, "and another")
    check(case.checkpoints()[0] == held, f"{held} is held: {case.checkpoints()}")
    since = case.samples()
    wait_for(lambda: case.samples() > since, "training goes on")
    train.send_signal(signal.SIGTERM)
    log = f"{case.run}/logs/scheduler.log"
    wait_for(lambda: "[checkpoint.hook.wait]" in text_of(log), "the end")
    wait_for(lambda: train.send_signal(signal.SIGTERM) or train.poll() is not None, "a signal to end the wait")
    check(train.returncode == 85, f"{train.returncode} {text_of(f'{train.log}.err')}")


def last_hook(case):
    """The end of a run waits for a hook, longer than members get to leave."""
    copy = case.at("copy")
    train = case.train("train.epochs=1", "checkpoint.interval_s=0",
                       f"checkpoint.hook=sleep 8; cp -r \"$1\" {copy}", environment={})
    check(train.wait(DEADLINE_S) == 0, text_of(f"{train.log}.err"))
    check(os.path.exists(f"{copy}/manifest"), "the hook was not ended")
    hook = case.checkpoints()[-1]
    os.remove(f"{case.run}/hook.done")
    _, err = case.call("dslide-scheduler", "--resume", "--run-dir", case.run)
    check(f"checkpoint.hook has not succeeded with the last checkpoint" in err and hook in err, err)


def last_shard_hook(case):
    """So does it for a server's hook: longer than members get to leave and to end together."""
    copy = case.at("copy")
    train = case.train("train.epochs=1", "checkpoint.interval_s=0",
                       f"checkpoint.shard_hook=sleep 17; cp -r \"$DSLIDE_SHARD\" {copy}", environment={})
    check(train.wait(DEADLINE_S) == 0, text_of(f"{train.log}.err"))
    check(os.path.isdir(copy), "the hook was not ended")


def quota(case):
    """A quota prunes; one that is too small stops checkpoints but the last, and the training goes on."""
    train = case.train("train.epochs=100000", "checkpoint.interval_s=1", "checkpoint.keep=10")
    case.trains()
    wait_for(lambda: len(case.checkpoints()) > 3, "checkpoints")
    check(case.end(train) == 85, "stopped")
    # A file that takes most of the quota.
    with open(f"{case.run}/ballast", "wb") as file:
        file.write(b"x" * (3 << 20))
    again = case.train("checkpoint.interval_s=1", "checkpoint.quota_mb=1", "train.epochs=100000",
                       words=("--resume",))
    problem = wait_for(lambda: case.status().get("checkpoint_problem"), "a problem")
    check("checkpoint.quota_mb = 1" in problem and "training goes on" in problem, problem)
    check(len(case.checkpoints()) == 1, f"the last complete one stays: {case.checkpoints()}")
    kept = case.checkpoints()[0]
    since = case.samples()
    wait_for(lambda: case.samples() > since, "training goes on")
    check("no checkpoints: " in case.call("dslide", "status", case.run)[0], "status")
    _, err = case.call("dslide", "run", "checkpoint", case.run, code=1)
    check("checkpoint.quota_mb" in err, err)
    os.remove(f"{case.run}/ballast")
    log = f"{case.run}/logs/scheduler.log"
    wait_for(lambda: text_of(log).count("[checkpoint.room]") == 2, "room")
    wait_for(lambda: case.checkpoints()[-1] > kept, "a checkpoint")
    with open(f"{case.run}/ballast", "wb") as file:
        file.write(b"x" * (3 << 20))
    wait_for(lambda: case.status().get("checkpoint_problem"), "a problem again")
    newest = case.checkpoints()[-1]
    since = case.samples()
    wait_for(lambda: case.samples() > since, "training goes on")
    check(case.end(again) == 85, text_of(f"{again.log}.err"))
    check(case.checkpoints()[-1] > newest, "the last checkpoint is written in any case")


def runs(case):
    """dslide run list, start, stop, gc."""
    case.run = case.at("runs/a")
    train = case.train("train.epochs=2", "checkpoint.interval_s=1", "checkpoint.keep=5",
                       f"train.test={case.at('train.txt')}")
    check(train.wait(DEADLINE_S) == 0, text_of(f"{train.log}.err"))
    os.makedirs(f"{case.run}/checkpoint/store-server-1-00000000000000ff")
    os.symlink("a", case.at("runs/latest"))
    b = case.at("runs/b")
    out, _ = case.call("dslide", "run", "start", b, *case.sets("train.epochs=100000"))
    pid = int(re.search(r"pid (\d+)", out).group(1))
    try:
        _, err = case.call("dslide", "run", "start", b, code=75)
        check("runs already" in err, err)
        case.start("dslide-server", "--scheduler", f"file://{b}/scheduler.address")
        case.start("dslide-worker", "--scheduler", f"file://{b}/scheduler.address", environment=SLOWLY)
        case.run = b
        case.trains()
        listed = {one["name"]: one for one in
                  json.loads(case.call("dslide", "run", "list", case.at("runs"), "--json")[0])}
        check(set(listed) == {"a", "b"}, listed)
        check(listed["a"]["state"] == "finished" and listed["a"]["p_at_1"] > 0.4, listed)
        check(listed["b"]["state"] == "running" and listed["b"]["pid"] == pid, listed)
        out, _ = case.call("dslide", "run", "list", case.at("runs"))
        check(re.search(r"^a +finished +100 % +[0-9.]+ +- ", out, re.M) and f"pid {pid}" in out, out)
        case.call("dslide", "run", "stop", b)
    except BaseException:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
        raise
    listed = json.loads(case.call("dslide", "run", "list", b, "--json")[0])
    check(listed[0]["state"] == "stopped" and "stopped after" in listed[0]["outcome"], listed)
    check("does not run" in case.call("dslide", "run", "stop", b)[0], "twice")

    a = case.at("runs/a")
    case.run = a
    before = case.checkpoints()
    check(len(before) >= 1, before)
    out, _ = case.call("dslide", "run", "gc", case.at("runs"))
    check("store-server-1" in out and "--yes removes them" in out and case.checkpoints() == before, out)
    case.call("dslide", "run", "gc", case.at("runs"), "--yes")
    check(case.checkpoints() == before[-1:], case.checkpoints())
    check(not os.path.exists(f"{a}/checkpoint/store-server-1-00000000000000ff"), "the store")
    case.call("dslide", "evaluate", "--checkpoint", a, "--data", case.at("train.txt"))
    check("0 directories" in case.call("dslide", "run", "gc", case.at("runs"))[0], "nothing more")
    run_start(case)


def run_start(case):
    """What `dslide run start` is refused leaves nothing; an address that the file names is kept."""
    new = case.at("runs/new")
    out, err = case.call("dslide", "run", "start", new, *case.sets(f"train.data={case.at('absent.txt')}"),
                         code=2)
    check("starting, pid " in out and "started" not in out and "absent.txt" in err, out + err)
    check(not os.path.exists(case.at("runs/new")), "a refused run leaves nothing")
    # The default address, as somebody may want it: here it is taken, by this test or by another program.
    with contextlib.suppress(OSError):
        taken = socket.socket()
        case.sockets.append(taken)
        taken.bind(("127.0.0.1", 7700))
        taken.listen()
    with open(case.at("named.ini"), "w", encoding="utf-8") as file:
        file.write("[cluster]\nscheduler_bind = tcp://127.0.0.1:7700\n")
    _, err = case.call("dslide", "run", "start", new, "--config", case.at("named.ini"), *case.sets(), code=2)
    check("tcp://127.0.0.1:7700" in err, err)
    shutil.rmtree(case.at("runs/new"), ignore_errors=True)
    out, _ = case.call("dslide", "run", "start", new, *case.sets("cluster.join_timeout_s=1"))
    check(re.search(r": starting, pid \d+, log .*\n.*: started, listens at tcp://127.0.0.1:\d+\n", out), out)
    wait_for(lambda: json.loads(case.call("dslide", "run", "list", new, "--json")[0])[0]["state"] != "running",
             "its end: no servers come")


def killed_while_stopping(case):
    """A scheduler that dies before it has written its last checkpoint was not stopped in good order."""
    out, _ = case.call("dslide", "run", "start", case.run, *case.sets())
    pid = int(re.search(r"pid (\d+)", out).group(1))

    def asked():
        pending = re.search(r"ShdPnd:\s*([0-9a-f]+)", text_of(f"/proc/{pid}/status"))
        return int(pending.group(1), 16) & 1 << (signal.SIGTERM - 1)

    try:
        os.kill(pid, signal.SIGSTOP)
        stop = case.start("dslide", "run", "stop", case.run)
        wait_for(asked, "the signal")
    finally:
        os.kill(pid, signal.SIGKILL)
    check(stop.wait(DEADLINE_S) == 1, text_of(f"{stop.log}.out"))
    check("ended before the last checkpoint was written" in text_of(f"{stop.log}.err"), stop.log)


def outputs(case):
    """Results that cannot be written are no success; a run goes on. Names that are no UTF-8 are shown."""
    with open("/dev/full", "w", encoding="utf-8") as full:
        for words in (("run", "list", case.path), ("data", "stats", case.at("train.txt"))):
            done = subprocess.run([f"{BIN}/dslide", *words], stdout=full, stderr=subprocess.PIPE, text=True,
                                  timeout=DEADLINE_S, check=False)
            check(done.returncode == 1 and "standard output: No space left" in done.stderr, done)
        words = ("train", "--run-dir", case.run, "--servers", "1", "--workers", "1",
                 *case.sets("train.epochs=1"))
        done = subprocess.run([f"{BIN}/dslide", *words], stdout=full, stderr=subprocess.PIPE, text=True,
                              timeout=DEADLINE_S, check=False)
        check(done.returncode == 0, done)
    directory = os.fsencode(case.at("no-utf8-")) + b"\xff"
    done = subprocess.run([f"{BIN}/dslide", "doctor", "--json", "--run-dir", directory], capture_output=True,
                          timeout=DEADLINE_S, check=False)
    check(json.loads(done.stdout)["findings"], done)


def main():
    global BIN
    BIN = os.path.join(os.path.abspath(sys.argv[1]), "bin")
    cases = [finished, cheap_first, logs, views, hooks, slow_hook, last_hook, last_shard_hook, quota, runs,
             killed_while_stopping, outputs]
    wanted = sys.argv[2:] or [one.__name__ for one in cases]
    failures = []
    for one in cases:
        if one.__name__ not in wanted:
            continue
        case = Case()
        began = time.monotonic()
        try:
            one(case)
            print(f"ok: {one.__name__}, {time.monotonic() - began:.1f} s", flush=True)
        except Exception:  # pylint: disable=broad-except
            failures.append(one.__name__)
            traceback.print_exc()
            for process in case.processes:
                print(f"--- {process.args[:2]}: {process.poll()}", text_of(f"{process.log}.out")[-1500:],
                      text_of(f"{process.log}.err")[-1500:], sep="\n", file=sys.stderr)
            print("--- scheduler.log", text_of(f"{case.run}/logs/scheduler.log")[-3000:], sep="\n",
                  file=sys.stderr)
            print(f"FAILED: {one.__name__}", flush=True)
        finally:
            case.close()
    if failures:
        raise SystemExit("operations_test: " + ", ".join(failures))


if __name__ == "__main__":
    main()
