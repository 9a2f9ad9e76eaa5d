#!/usr/bin/python3 -B
"""The same sources give the same bytes in another directory, and no path of the build is in them.

    reproducible_test.py BUILD_DIRECTORY [--all]

Builds dslide-worker once more, from a copy of the sources in a directory with another name, and compares
it with the one in the build directory. --all: builds the Debian packages of two copies in place of that,
and compares these, which takes as long as two builds from nothing.
"""

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import tempfile

from debian_root import ROOT, check, digest, run

# What decides the bytes: they are those of the build directory.
OPTIONS = ("DSLIDE_WERROR", "DSLIDE_QUICK_BUILD", "DSLIDE_GROUP_SOURCES", "CMAKE_BUILD_TYPE",
           "CMAKE_CXX_FLAGS_RELWITHDEBINFO", "CMAKE_CXX_COMPILER")
TARGET = "dslide-worker"


def copy_sources(directory):
    """Files that are in the repository, or would be."""
    names = run("git", "-C", ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0")
    for name in filter(None, names):
        if not os.path.lexists(f"{ROOT}/{name}"):
            continue  # removed, and not committed yet
        os.makedirs(os.path.dirname(f"{directory}/{name}"), exist_ok=True)
        shutil.copy2(f"{ROOT}/{name}", f"{directory}/{name}", follow_symlinks=False)


def without_cache():
    """Compilers run: an object of a cache would be the same for another reason."""
    return dict(os.environ, CCACHE_DISABLE="1")


def options_of(build):
    with open(f"{build}/CMakeCache.txt", encoding="utf-8") as file:
        found = dict(re.findall(r"^(\w+):\w+=(.*)$", file.read(), re.MULTILINE))
    return [f"-D{name}={found[name]}" for name in OPTIONS if name in found]


def stripped(path, directory):
    target = f"{directory}/{os.path.basename(path)}-{hashlib.sha256(path.encode()).hexdigest()[:8]}"
    run("strip", "--strip-all", "-o", target, path)
    return target


def one_executable(build, directory):
    copy = f"{directory}/a-directory-with-a-longer-name/sources"
    copy_sources(copy)
    other = f"{directory}/objects"
    run("cmake", "-G", "Ninja", "-S", copy, "-B", other, *options_of(build), env=without_cache())
    run("ninja", "-C", other, "-j", len(os.sched_getaffinity(0)), TARGET, env=without_cache())
    for what, change in (("", lambda path: path), (" when it is stripped", lambda path: stripped(path, directory))):
        ours, theirs = change(f"{build}/bin/{TARGET}"), change(f"{other}/bin/{TARGET}")
        if digest(ours) != digest(theirs):
            differing = subprocess.run(["cmp", "-l", ours, theirs], capture_output=True, text=True).stdout
            check(f"{TARGET} is the same{what}: {len(differing.splitlines())} bytes differ, "
                  f"{os.path.getsize(ours)} and {os.path.getsize(theirs)} in all", False)
        check(f"{TARGET} has the same bytes in another directory{what}", True)
    return f"{other}/bin/{TARGET}", (copy, other, ROOT + "/", build)


def check_paths(path, places):
    with open(path, "rb") as file:
        content = file.read()
    for place in places:
        check(f"no path of a build is in {os.path.basename(path)}", place.encode() not in content)


def whole_packages(directory):
    packages = []
    # Those of this checkout's last commit: a copy has no history to take it from.
    date = run("git", "-C", ROOT, "log", "-1", "--format=%ct").strip()
    for name in ("first", "a-directory-with-a-longer-name/second"):
        copy = f"{directory}/{name}"
        copy_sources(copy)
        said = run(f"{copy}/tools/package/deb", cwd=copy, env=dict(without_cache(), SOURCE_DATE_EPOCH=date))
        packages.append(os.path.join(copy, said.split()[-1]))
    check(f"{os.path.basename(packages[0])} has the same bytes in two directories: {digest(packages[0])}",
          digest(packages[0]) == digest(packages[1]))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--all", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="dslide-reproducible-") as directory:
        if arguments.all:
            return whole_packages(directory)
        check_paths(*one_executable(os.path.abspath(arguments.build), directory))


if __name__ == "__main__":
    main()
