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

sys.dont_write_bytecode = True
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, f"{ROOT}/tools/bench")

from netlab import Process, wait_for  # noqa: E402

DEADLINE_S = 120  # longer than anything takes; a test that hits it has failed
NAMESPACE = "DSLIDE_FULL_DISK_TEST"  # set in the process that has its own
EPOCHS = 20  # some seconds
DISK_MB = 8  # less than the ledger reserves ahead, so that it meets the full disk at once
SLOWLY = {"DSLIDE_FAILPOINTS": "worker.before-report=delay:5"}
WAITS = "training waits until there is room"
SETTINGS = ("train.data=train.txt", f"train.epochs={EPOCHS}", "train.batch=32", "model.hidden=16",
            "cluster.executors=1", "cluster.heartbeat_ms=200", "cluster.status_bind=",
            "checkpoint.interval_s=1")


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
                print(f"--- {process.title}\n{process.output()[-3000:]}")
            process.end(signal.SIGKILL)  # its members end with it

    def start(self, *words):
        sets = [word for setting in (*SETTINGS, f"checkpoint.directory={self.checkpoints}")
                for word in ("--set", setting)]
        title = f"train-{len(self._processes)}"
        process = Process(title, [f"{self._binaries}/dslide", "train", "--run-dir", self.directory,
                                  "--servers", "2", "--workers", "2", *sets, *words], f"{title}.log")
        self._processes.append(process)
        return process

    @staticmethod
    def wait_for_line(process, text):
        wait_for(lambda: text in process.output(), [], DEADLINE_S, f"'{text}'")

    def dslide(self, *words):
        done = subprocess.run([f"{self._binaries}/dslide", *words], capture_output=True, text=True,
                              timeout=DEADLINE_S)
        assert done.returncode == 0, f"dslide {words}: {done.returncode}: {done.stdout}{done.stderr}"
        return done.stdout

    def samples(self):
        return json.loads(self.dslide("status", self.directory, "--json"))["figures"]["samples"]

    def begin(self):
        process = self.start()
        self.wait_for_line(process, " written; ")  # a checkpoint
        return process

    def check_complete(self):
        counts = json.loads(self.dslide("ledger", "verify", self.directory, "--json"))
        assert counts["missing"] == 0 and counts["duplicated"] == 0, counts
        assert counts["epochs_done"] == EPOCHS, counts
        self.dslide("checkpoint", "verify", self.checkpoints)


def goes_on(run):
    """Members stay, the status is answered, and training ends as if nothing had been."""
    process = run.begin()
    with run.disk.full():
        run.wait_for_line(process, WAITS)
        assert 0 < run.samples() < EPOCHS * 2000
        assert process.running()
    run.wait_for_line(process, "the ledger's disk has room again")
    process.wait(DEADLINE_S)
    run.check_complete()


def is_stopped(run):
    """A signal ends it at once, with the newest checkpoint; it continues when there is room."""
    process = run.begin()
    with run.disk.full():
        run.wait_for_line(process, WAITS)
        process.signal(signal.SIGTERM)
        wait_for(lambda: not process.running(), [], DEADLINE_S, "the end of the run")
        assert process.exit_code() == 85, process.exit_code()
        assert "while the ledger's disk had no room" in process.output()
    run.start("--resume").wait(DEADLINE_S)
    run.check_complete()


def main():
    if NAMESPACE not in os.environ:
        os.environ[NAMESPACE] = "yes"
        os.execvp("unshare", ["unshare", "--mount", "--propagation", "private", sys.executable, *sys.argv])
    os.environ.update(SLOWLY)
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
