"""Running D-SLIDE's executables, with their progress shown."""
from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from typing import IO, Any, Callable, Optional

from ._errors import error_of
from ._executables import find_executable
from ._lifetime import start

_STOP_S = 60.0  # for a program that was asked to stop; it may write a checkpoint


def setting(key: str, value: Any) -> str:
    """`section.key=value` as the executables read it."""
    if isinstance(value, bool):
        value = "true" if value else "false"
    if isinstance(value, (bytes, os.PathLike)):
        value = os.fsdecode(value)
    return f"{key}={value}"


def run(arguments: list[str], verbose: bool = False) -> None:
    """Runs `dslide ARGUMENTS` to its end. Raises a DslideError with the program's own text if it
    fails. An exception meanwhile (Ctrl-C) stops the program first."""
    show = _shower() if verbose else None
    inherits = show is None and verbose
    out: Any = None if inherits else subprocess.PIPE if show else subprocess.DEVNULL
    # A file, not a pipe: nobody has to read it meanwhile.
    with tempfile.TemporaryFile() as errors:
        process = start([find_executable("dslide"), *arguments], stdin=subprocess.DEVNULL,
                        stdout=out, stderr=errors)
        try:
            if show:
                _show_lines(process.stdout, show)
            process.wait()
        except BaseException:
            stop([process])
            raise
        finally:
            if process.stdout:
                process.stdout.close()
        if process.returncode != 0:
            errors.seek(0)
            raise error_of("dslide " + arguments[0], process.returncode,
                           errors.read().decode(errors="replace"))


def stop(processes: list[subprocess.Popen]) -> None:
    """Asks processes to stop, and ends those that do not. An exception meanwhile (a second Ctrl-C)
    ends all at once."""
    try:
        for process in processes:
            if process.poll() is None:
                process.terminate()
        for process in processes:
            try:
                process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
    except BaseException:
        for process in processes:
            process.kill()
        for process in processes:
            process.wait()
        raise


def _shower() -> Optional[Callable[[str], None]]:
    """What shows a line; None: the program itself, on the terminal."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if shell is not None and getattr(shell, "kernel", None) is not None:
        from IPython.display import display

        handle = display({"text/plain": ""}, raw=True, display_id=True)
        return lambda line: handle.update({"text/plain": line}, raw=True)
    try:
        if sys.stdout.fileno() == 1 and os.isatty(1):
            return None
    except (AttributeError, OSError, ValueError):  # a stand-in for standard output
        pass
    return lambda line: print(line, flush=True)


def _show_lines(stream: Optional[IO[bytes]], show: Callable[[str], None]) -> None:
    assert stream is not None
    for line in stream:
        show(line.decode(errors="replace").rstrip("\n"))
