"""Where D-SLIDE's executables are."""
from __future__ import annotations

import os
import shutil


def find_executable(name: str) -> str:
    """The path of an executable: in the directory that the environment variable DSLIDE_BIN names,
    beside the package (a wheel), in the build tree that the package lies in, or on the PATH."""
    chosen = os.environ.get("DSLIDE_BIN")
    if chosen:
        path = os.path.join(chosen, name)
        if _is_executable(path):
            return path
        raise FileNotFoundError(f"DSLIDE_BIN={chosen}: has no executable {name}; name the "
                                "directory of D-SLIDE's executables, or unset DSLIDE_BIN")
    package = os.path.dirname(os.path.abspath(__file__))
    for directory in (os.path.join(package, "bin"), os.path.join(package, "..", "..", "bin")):
        path = os.path.normpath(os.path.join(directory, name))
        if _is_executable(path):
            return path
    found = shutil.which(name)
    if found:
        return found
    raise FileNotFoundError(f"there is no executable {name} beside the package, in its build tree "
                            "or on the PATH; set DSLIDE_BIN to the directory that has it")


def _is_executable(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)
