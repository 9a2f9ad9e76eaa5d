"""Processes and directories that do not outlive this process, however it ends."""
from __future__ import annotations

import os
import queue
import shutil
import subprocess
import tempfile
import threading
from typing import Any, Optional

# Its standard input ends with the last process that has the other end of the pipe.
_SWEEP = 'read -r _; rm -rf -- "$1"'


class _Starter:
    """A thread that starts processes. The kernel sends a child its signal (PR_SET_PDEATHSIG) when
    the thread ends that started it, so this one stays until the process ends."""

    def __init__(self) -> None:
        self.owner = os.getpid()
        self._orders: queue.SimpleQueue = queue.SimpleQueue()
        threading.Thread(target=self._serve, name="dslide-starter", daemon=True).start()

    def start(self, command: list[str], named: dict[str, Any]) -> subprocess.Popen:
        results: queue.SimpleQueue = queue.SimpleQueue()
        self._orders.put((command, named, results))
        try:
            result = results.get()
        except BaseException:  # Ctrl-C: nobody would have the process
            result = results.get()
            if isinstance(result, subprocess.Popen):
                result.kill()
                result.wait()
            raise
        if isinstance(result, BaseException):
            raise result
        return result

    def _serve(self) -> None:
        while True:
            command, named, results = self._orders.get()
            try:
                results.put(subprocess.Popen(command, **named))
            except BaseException as error:
                results.put(error)


class _Sweeper:
    """A shell that removes a directory when this process and all that it started have ended. It
    has a session of its own, so that no signal of the terminal or the process group meets it."""

    def __init__(self, directory: str) -> None:
        self.owner = os.getpid()
        read_end, self.write_end = os.pipe()
        try:
            self._process = subprocess.Popen(
                ["/bin/sh", "-c", _SWEEP, "dslide-sweeper", directory], stdin=read_end,
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/",
                start_new_session=True)
        except BaseException:
            os.close(self.write_end)
            raise
        finally:
            os.close(read_end)

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self.write_end)


_lock = threading.RLock()  # an object's end may come at any time
_starter: Optional[_Starter] = None
_sweepers: dict[str, _Sweeper] = {}  # by directory


def _forget_after_fork() -> None:
    global _lock
    _lock = threading.RLock()


os.register_at_fork(after_in_child=_forget_after_fork)


def start(command: list[str], **named: Any) -> subprocess.Popen:
    """subprocess.Popen(), of a process that gets SIGTERM when this one ends, even by SIGKILL."""
    global _starter
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        raise FileNotFoundError("there is no setpriv on the PATH; install util-linux")
    with _lock:
        if _starter is None or _starter.owner != os.getpid():  # a fork lacks the thread
            _starter = _Starter()
        fds = [sweeper.write_end for sweeper in _sweepers.values()]
        return _starter.start([setpriv, "--pdeathsig", "TERM", *command],
                              {**named, "pass_fds": fds})


def make_temporary() -> str:
    """A new directory. It goes by remove_temporary(), or after this process has ended, even by
    SIGKILL, and all that start() started."""
    directory = os.path.abspath(tempfile.mkdtemp(prefix="dslide-"))
    try:
        with _lock:
            _sweepers[directory] = _Sweeper(directory)
    except BaseException:
        shutil.rmtree(directory, ignore_errors=True)
        raise
    return directory


def remove_temporary(directory: str) -> None:
    """Removes a directory of make_temporary(). In a fork of the process that made it: nothing."""
    with _lock:
        sweeper = _sweepers.get(directory)
        if sweeper is None or sweeper.owner != os.getpid():
            return
        shutil.rmtree(directory, ignore_errors=True)
        del _sweepers[directory]
        sweeper.end()
