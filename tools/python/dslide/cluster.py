"""A cluster of processes: started from a configuration, or joined."""
from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
import weakref
from typing import Any, Optional, Union

from ._errors import error_of
from ._executables import find_executable
from ._lifetime import make_temporary, remove_temporary, start
from ._programs import setting, stop

_POLL_S = 0.05
Path = Union[str, os.PathLike]


class Cluster:
    """Processes of a cluster on this machine. Use it as a context manager: they end with it.

    Cluster(...) starts a scheduler, servers and workers by `dslide train`, which starts those again
    that die, and returns when the scheduler can be joined, after it has read the data.
    Cluster.join(...) adds workers to a cluster that runs elsewhere.

    Parameters
    ----------
    config
        A configuration file (configs/README.md); None: the defaults.
    settings
        Keys over it: {"train.data": "train.txt", "train.epochs": 4}.
    servers, workers
        How many; None: as the configuration says.
    run_dir
        Where the run's files go. None: a temporary directory, removed by stop().
    resume
        Go on from the newest checkpoint in run_dir.

    Attributes
    ----------
    address
        The scheduler's, which workers and servers join.
    run_dir
        The run's directory; None of a cluster that was joined.
    """

    def __init__(self, config: Optional[Path] = None, *,
                 settings: Optional[dict[str, Any]] = None, servers: Optional[int] = None,
                 workers: Optional[int] = None, run_dir: Optional[Path] = None,
                 resume: bool = False) -> None:
        temporary = None
        if run_dir is None:
            if resume:
                raise ValueError("resume needs run_dir, the run to go on with")
            temporary = make_temporary()
            run_dir = os.path.join(temporary, "run")
        arguments = ["train", "--run-dir", os.fspath(run_dir)]
        if config is not None:
            arguments += ["--config", os.fspath(config)]
        if servers is not None:
            arguments += [f"--servers={servers}"]
        if workers is not None:
            arguments += [f"--workers={workers}"]
        for key, value in (settings or {}).items():
            arguments += ["--set", setting(key, value)]
        if resume:
            arguments += ["--resume"]
        self.run_dir: Optional[str] = os.fspath(run_dir)
        self._begin([["dslide", *arguments]], temporary)
        self.address = self._wait_for_address()

    @classmethod
    def join(cls, address: str, workers: int = 1) -> "Cluster":
        """Starts workers that join the scheduler at `address`. stop() ends them, not the others;
        wait() returns when the run has ended. Raises a DslideError if no scheduler answers there
        within some seconds."""
        if workers < 1:
            raise ValueError(f"workers must be 1 or more, not {workers}")
        cluster = cls.__new__(cls)
        cluster.run_dir = None
        cluster.address = address
        cluster.status()
        cluster._begin([["dslide-worker", "--scheduler", address] for _ in range(workers)], None)
        return cluster

    def status(self) -> dict[str, Any]:
        """What the status page's /api/status shows: run, servers, workers, decisions."""
        result = subprocess.run([find_executable("dslide"), "status", "--scheduler", self.address,
                                 "--json"], stdin=subprocess.DEVNULL, capture_output=True,
                                check=False)
        if result.returncode != 0:
            raise error_of("dslide status", result.returncode,
                           result.stderr.decode(errors="replace"))
        return json.loads(result.stdout)

    def wait(self, timeout: Optional[float] = None) -> Optional[dict[str, Any]]:
        """Waits until the run has ended; returns its summary.json (None of a joined cluster).
        Raises a DslideError if it failed, and a TimeoutError after `timeout` seconds."""
        end = None if timeout is None else time.monotonic() + timeout
        for child in self._children:
            try:
                child.process.wait(None if end is None else max(0.0, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                raise TimeoutError(f"the run goes on after {timeout} s") from None
        self._check()
        if self.run_dir is None:
            return None
        with open(os.path.join(self.run_dir, "summary.json"), encoding="utf-8") as file:
            return json.load(file)

    def stop(self) -> None:
        """Stops the processes: training writes a checkpoint first, workers finish their batches.
        Does nothing if they have ended."""
        self._finalizer()

    def __enter__(self) -> "Cluster":
        return self

    def __exit__(self, *_: Any) -> None:
        self.stop()

    def _begin(self, commands: list[list[str]], temporary: Optional[str]) -> None:
        self._address_before = self._address_file()
        self._children: list[_Child] = []
        # Also when the object is forgotten, and at the interpreter's end.
        self._finalizer = weakref.finalize(self, _end, os.getpid(), self._children,
                                           temporary)
        try:
            for command in commands:
                self._children.append(_Child(command))
        except BaseException:
            self.stop()
            raise

    def _address_file(self) -> Optional[tuple[int, int]]:
        """The file's identity: each life of a scheduler writes a new one."""
        if self.run_dir is None:
            return None
        try:
            found = os.stat(os.path.join(self.run_dir, "scheduler.address"))
        except OSError:
            return None
        return found.st_ino, found.st_ctime_ns

    def _wait_for_address(self) -> str:
        assert self.run_dir is not None
        try:
            while self._address_file() in (None, self._address_before):
                try:
                    self._children[0].process.wait(_POLL_S)
                except subprocess.TimeoutExpired:
                    continue
                self._check()
                break
            with open(os.path.join(self.run_dir, "scheduler.address"),
                      encoding="utf-8-sig") as file:
                return file.readline().strip()
        except BaseException:
            self.stop()
            raise

    def _check(self) -> None:
        """Raises if a process has failed. All have ended."""
        for child in self._children:
            child.close()
            # 85: the run was stopped, and its workers with it.
            good = (0, 85) if child.program == "dslide-worker" else (0,)
            if child.process.returncode not in good:
                raise error_of(child.program, child.process.returncode, child.errors)


class _Child:
    """A process, and what it says on standard error."""

    def __init__(self, command: list[str]) -> None:
        self.program = "dslide train" if command[0] == "dslide" else command[0]
        self.errors = ""  # once it is closed
        self._file = tempfile.TemporaryFile()
        try:
            self.process = start(
                [find_executable(command[0]), *command[1:]], stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL, stderr=self._file)
        except BaseException:
            self._file.close()
            raise

    def close(self) -> None:
        """After the process has ended."""
        if not self._file.closed:
            self._file.seek(0)
            self.errors = self._file.read().decode(errors="replace")
            self._file.close()


def _end(owner: int, children: list[_Child], temporary: Optional[str]) -> None:
    if os.getpid() != owner:  # a fork of the process that started the cluster
        return
    try:
        stop([child.process for child in children])
    finally:
        for child in children:
            child.close()
        if temporary is not None:
            remove_temporary(temporary)
