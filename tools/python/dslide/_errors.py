"""Errors of D-SLIDE's executables."""
from __future__ import annotations


class DslideError(RuntimeError):
    """An executable failed. The text is its own last line."""

    def __init__(self, message: str, exit_code: int = 1) -> None:
        super().__init__(message)
        self.exit_code = exit_code

    def __reduce__(self):
        return type(self), (str(self), self.exit_code)


class DslideInputError(DslideError, ValueError):
    """An executable refused its data or its configuration (exit code 2)."""

    def __init__(self, message: str, exit_code: int = 2) -> None:
        super().__init__(message, exit_code)


def error_of(program: str, exit_code: int, stderr: str) -> DslideError:
    """The error of a program that ended with `exit_code` and wrote `stderr`."""
    lines = [line for line in stderr.splitlines() if line.strip()]
    own = [line for line in lines if line.startswith(program + ": ")]
    if own:
        message = own[-1][len(program) + 2:]
    elif exit_code < 0:
        message = f"{program} was ended by signal {-exit_code}"
    else:
        message = "\n".join(lines[-5:]) or f"{program} ended with exit code {exit_code}"
    kind = DslideInputError if exit_code == 2 else DslideError
    return kind(message, exit_code)
