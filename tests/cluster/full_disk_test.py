#!/usr/bin/python3
"""A run whose disk is full for a while: it waits, and continues or stops; nothing that counts is lost.

    full_disk_test.py BUILD_DIRECTORY

The run directory is on a small disk in memory, in a mount namespace of its own, its checkpoints are
on another disk; needs root.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time

sys.dont_write_bytecode = True
DEADLINE_S = 120  # longer than anything takes; a test that hits it has failed
NAMESPACE = "DSLIDE_FULL_DISK_TEST"  # set in the process that has its own
EPOCHS = 20  # some seconds
DISK_MB = 8  # less than the ledger reserves ahead, so that it meets the full disk at once
SLOWLY = {"DSLIDE_FAILPOINTS": "worker.before-report=delay:5"}
WAITS = "training waits until there is room"
SETTINGS = ("train.data=train.txt", f"train.epochs={EPOCHS}", "train.batch=32", "model.hidden=16",
            "cluster.executors=1", "cluster.heartbeat_ms=200", "cluster.status_bind=",
            "checkpoint.interval_s=1")


def wait_for(condition, what):
    end = time.monotonic() + DEADLINE_S
    while time.monotonic() < end:
        if condition():
            return
        time.sleep(0.05)
    raise AssertionError(f"no sign of {what}")


class SmallDisk:
    """A directory with room for DISK_MB megabytes; a context manager."""

    def __init__(self, path):
        self.path = path

    def __enter__(self):
        os.mkdir(self.path)
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_MB}m", "tmpfs", self.path], check=True)
        return self

    def __exit__(self, *_):
        subprocess.run(["umount", self.path], check=True)
        os.rmdir(self.path)

    def _fill(self, file):
        for size in (1 << 20, 4096, 1):
            with contextlib.suppress(OSError):
                while file.write(bytes(size)) == size:
                    pass

    @contextlib.contextmanager
    def full(self):
        """Takes all room, and takes room again when another process frees some."""
        ended = threading.Event()

        def keep_full():
            with open(f"{self.path}/filler", "ab", buffering=0) as file:
                while not ended.is_set():
                    self._fill(file)
                    ended.wait(0.01)

        filler = threading.Thread(target=keep_full)
        filler.start()
        try:
            yield
        finally:
            ended.set()
            filler.join()
            os.remove(f"{self.path}/filler")


class Run:
    """`dslide train` on a disk; a context manager that ends it."""

    def __init__(self, binaries, disk):
        self._binaries, self.disk = binaries, disk
        self.directory = f"{disk.path}/run"
        self.checkpoints = f"{disk.path}-checkpoints"  # on another disk
        self._processes = []

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        for process in self._processes:
            if kind is not None:
                print(f"--- {process.log}\n{self.output(process)[-3000:]}")
            if process.poll() is None:
                process.kill()  # its members end with it
                process.wait()

    def start(self, *words):
        log = f"train-{len(self._processes)}.log"
        sets = [word for setting in (*SETTINGS, f"checkpoint.directory={self.checkpoints}")
                for word in ("--set", setting)]
        with open(log, "wb") as file:
            process = subprocess.Popen(
                [f"{self._binaries}/dslide", "train", "--run-dir", self.directory, "--servers", "2",
                 "--workers", "2", *sets, *words],
                stdin=subprocess.DEVNULL, stdout=file, stderr=file, env={**os.environ, **SLOWLY})
        process.log = log
        self._processes.append(process)
        return process

    @staticmethod
    def output(process):
        with open(process.log, encoding="utf-8", errors="replace") as file:
            return file.read()

    def dslide(self, *words):
        done = subprocess.run([f"{self._binaries}/dslide", *words], capture_output=True, text=True,
                              timeout=DEADLINE_S)
        assert done.returncode == 0, f"dslide {words}: {done.returncode}: {done.stdout}{done.stderr}"
        return done.stdout

    def samples(self):
        return json.loads(self.dslide("status", self.directory, "--json"))["figures"]["samples"]

    def begin(self):
        process = self.start()
        wait_for(lambda: " written; " in self.output(process), "a checkpoint")
        return process

    def await_wait(self, process):
        wait_for(lambda: WAITS in self.output(process), "the line that training waits")

    def check_complete(self):
        counts = json.loads(self.dslide("ledger", "verify", self.directory, "--json"))
        assert counts["missing"] == 0 and counts["duplicated"] == 0, counts
        assert counts["epochs_done"] == EPOCHS, counts
        self.dslide("checkpoint", "verify", self.checkpoints)


def goes_on(run):
    """Members stay, the status is answered, and training ends as if nothing had been."""
    process = run.begin()
    with run.disk.full():
        run.await_wait(process)
        assert 0 < run.samples() < EPOCHS * 2000
        assert process.poll() is None
    wait_for(lambda: "the ledger's disk has room again" in run.output(process), "room")
    assert process.wait(DEADLINE_S) == 0
    run.check_complete()


def is_stopped(run):
    """A signal ends it at once, with the newest checkpoint; it continues when there is room."""
    process = run.begin()
    with run.disk.full():
        run.await_wait(process)
        process.send_signal(signal.SIGTERM)
        assert process.wait(DEADLINE_S) == 85, process.returncode
        assert "while the ledger's disk had no room" in run.output(process)
    resumed = run.start("--resume")
    assert resumed.wait(DEADLINE_S) == 0, run.output(resumed)
    run.check_complete()


def main():
    if NAMESPACE not in os.environ:
        os.environ[NAMESPACE] = "yes"
        os.execvp("unshare", ["unshare", "--mount", "--propagation", "private", sys.executable, *sys.argv])
    binaries = f"{os.path.abspath(sys.argv[1])}/bin"
    with tempfile.TemporaryDirectory(prefix="dslide-full-disk-") as directory:
        os.chdir(directory)
        with open("train.txt", "w", encoding="utf-8") as file:
            file.write("2000 30 20\n" + "".join(f"{i % 20} {i % 30}:1\n" for i in range(2000)))
        try:
            for case in (goes_on, is_stopped):
                with SmallDisk(f"{directory}/{case.__name__}") as disk, Run(binaries, disk) as run:
                    case(run)
                print(f"ok: {case.__name__}", flush=True)
        finally:
            os.chdir("/")


if __name__ == "__main__":
    main()
