#!/usr/bin/env python3
"""Compares the table of keys in configs/README.md with what an executable says of them.

    tests/config_table_test.py DSLIDE [--write]

DSLIDE is the executable, for example build/release/bin/dslide. The table stands between
"<!-- keys: begin -->" and "<!-- keys: end -->"; --write replaces it. Everything in it comes from
`dslide train --help-config`, and so from common/config/config_keys.cc.
"""
import argparse
import difflib
import pathlib
import re
import subprocess
import sys

README = pathlib.Path(__file__).resolve().parent.parent / "configs" / "README.md"
MARKED = re.compile(r"(?<=<!-- keys: begin -->\n).*(?=<!-- keys: end -->)", re.DOTALL)
# Of a key in the help: "  name = default", "      meaning (values)" and notes, a line each.
KEY = re.compile(r"  (\w+) =(?: (.*))?\n      (.*) \(([^()]*)\)\n((?:      .*\n)*)")
RESUMED = {"A resumed run keeps it.": "keeps it", "A resumed run keeps its sign.": "keeps its sign"}
SERVER = {"Each server reads its own.": "reads its own",
          "Each server and worker reads its own.": "reads its own, as a worker does",
          "Each worker reads its own; a server refuses it.": "refuses it; a worker reads its own"}


def rows(help_text):
    yield "| key | default | values | meaning | a resumed run | a server |"
    yield "|---|---|---|---|---|---|"
    for section, body in re.findall(r"^\[(\w+)\]\n(.*?)(?=^\[|\Z)", help_text, re.M | re.DOTALL):
        for name, default, meaning, values, lines in KEY.findall(body):
            cells = [f"`{section}.{name}`", f"`{default}`" if default else "", values, meaning]
            notes = lines.split("\n")
            for column in RESUMED, SERVER:
                cells.append("".join(column.get(note.strip(), "") for note in notes))
            yield "| " + " | ".join(cells) + " |"


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("dslide")
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    text = subprocess.check_output([arguments.dslide, "train", "--help-config"], text=True)
    table = "\n".join(rows(text)) + "\n"
    keys = len(re.findall(r"^  \w", text, re.M))
    if table.count("\n") != keys + 2:
        sys.exit(f"of {keys} keys in the help, {table.count(chr(10)) - 2} could be read")
    readme = README.read_text()
    found = MARKED.search(readme)
    if not found:
        sys.exit(f"{README} has no table between the markers")
    if arguments.write:
        README.write_text(MARKED.sub(lambda _: table, readme))
    elif found.group() != table:
        sys.stdout.writelines(difflib.unified_diff(
            found.group().splitlines(True), table.splitlines(True), "configs/README.md", "help"))
        sys.exit(f"the table differs; {__file__} {arguments.dslide} --write mends it")


if __name__ == "__main__":
    main()
