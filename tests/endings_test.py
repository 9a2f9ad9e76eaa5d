#!/usr/bin/env python3
"""Compares the tables of exit codes and signals in tools/dslide/MANUAL.md with what an executable says of them.

    tests/endings_test.py BIN [--write]

BIN has the executables. The tables stand between "<!-- endings: begin -->" and "<!-- endings: end -->";
--write replaces them. They come from `dslide --help`, and so from common/app/endings.cc. The help of each
executable has the same sections, and that of a command says where they are.
"""
import pathlib
import re
import subprocess
import sys

MANUAL = pathlib.Path(__file__).resolve().parent.parent / "tools" / "dslide" / "MANUAL.md"
MARKED = re.compile(r"(?<=<!-- endings: begin -->\n).*(?=<!-- endings: end -->)", re.DOTALL)
SECTIONS = re.compile(r"^exit codes:\n((?:  .*\n)+)\nsignals:\n((?:  .*\n)+)", re.M)


def help_of(*command):
    return subprocess.check_output([*command, "--help"], text=True)


def main():
    bin_directory, write = sys.argv[1], "--write" in sys.argv
    found = SECTIONS.search(help_of(f"{bin_directory}/dslide"))
    if not found:
        sys.exit("dslide --help has no exit codes and signals")
    for name in "scheduler", "server", "worker":
        if found.group() not in help_of(f"{bin_directory}/dslide-{name}"):
            sys.exit(f"dslide-{name} --help has other exit codes and signals than dslide --help")
    if "exit codes and signals: dslide --help" not in help_of(f"{bin_directory}/dslide", "status"):
        sys.exit("dslide status --help does not say where exit codes are")
    tables = []
    for head, section in zip(("exit code", "signal"), found.groups()):
        rows = [re.split(r"  +", line.strip(), maxsplit=1) for line in section.splitlines()]
        tables.append("\n".join([f"| {head} | meaning |", "|---|---|", *(f"| {a} | {b} |" for a, b in rows)]))
    text = "\n\n".join(tables) + "\n"
    manual = MANUAL.read_text()
    if not MARKED.search(manual):
        sys.exit(f"{MANUAL} has no tables between the markers")
    if write:
        MANUAL.write_text(MARKED.sub(lambda _: text, manual))
    elif MARKED.search(manual).group() != text:
        sys.exit(f"the tables in MANUAL.md differ; {__file__} {bin_directory} --write writes them")


if __name__ == "__main__":
    main()
