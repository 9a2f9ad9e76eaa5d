#!/usr/bin/env python3
"""Checks that all C++ sources are formatted as .clang-format says, by clang-format 14.

    tests/format_test.py [--fix]

Other versions format some constructs differently, so they are refused.
"""
import argparse
import os
import re
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
VERSION = "14"


def formatter():
    """The path of clang-format 14, or None."""
    for name in (f"clang-format-{VERSION}", "clang-format"):
        path = shutil.which(name)
        if path is None:
            continue
        text = subprocess.check_output([path, "--version"], text=True)
        if re.search(rf"version {VERSION}\.", text):
            return path
    return None


def sources():
    listed = subprocess.check_output(
        ["git", "-C", ROOT, "ls-files", "-co", "--exclude-standard", "*.h", "*.cc"], text=True)
    paths = [os.path.join(ROOT, name) for name in listed.splitlines()]
    return [path for path in paths if os.path.exists(path)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fix", action="store_true", help="format what is not formatted")
    arguments = parser.parse_args()
    tool = formatter()
    if tool is None:
        print(f"there is no clang-format {VERSION}; tools/install-packages installs it on Debian 12")
        return 1
    files = sources()
    action = ["-i"] if arguments.fix else ["--dry-run", "-Werror"]
    result = subprocess.run([tool, *action, *files], stderr=subprocess.PIPE, text=True, check=False)
    unformatted = sorted(set(re.findall(r"^(\S+?):\d+:\d+: error:", result.stderr, re.MULTILINE)))
    for path in unformatted:
        print(f"{os.path.relpath(path, ROOT)} is not formatted: tests/format_test.py --fix")
    print(f"format: {len(files)} sources, {len(unformatted)} not formatted")
    return 1 if result.returncode != 0 else 0


if __name__ == "__main__":
    sys.exit(main())
