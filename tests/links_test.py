#!/usr/bin/env python3
"""Checks that every relative link in a Markdown document leads to a file or folder.

    tests/links_test.py [--root DIR]
"""
import argparse
import os
import re
import subprocess
import sys
import urllib.parse

LINK = re.compile(r"\[[^\]\[]*\]\(([^()\s]+)\)")
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def documents(root):
    listed = subprocess.check_output(
        ["git", "-C", root, "ls-files", "-co", "--exclude-standard", "*.md"], text=True)
    return [name for name in listed.splitlines() if os.path.exists(os.path.join(root, name))]


def targets_of(root, document):
    with open(os.path.join(root, document), encoding="utf-8") as file:
        text = FENCE.sub("", file.read())
    for target in LINK.findall(text):
        path = urllib.parse.unquote(target.split("#")[0])
        if path and not re.match(r"[a-z]+:", target):
            yield target, os.path.join(root, os.path.dirname(document), path)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", default=os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    root = parser.parse_args().root
    links = dead = 0
    for document in documents(root):
        for target, path in targets_of(root, document):
            links += 1
            if not os.path.exists(path):
                dead += 1
                print(f"{document}: the link to {target} leads to no file")
    print(f"links: {links} relative ones, {dead} dead")
    return 1 if dead else 0


if __name__ == "__main__":
    sys.exit(main())
