#!/usr/bin/env python3
"""Checks that every relative link in a Markdown document leads to a file, and its #anchor to a heading.

    tests/links_test.py [--root DIR]
"""
import argparse
import functools
import os
import re
import subprocess
import sys
import urllib.parse

LINK = re.compile(r"\[[^\]\[]*\]\(([^()\s]+)\)")
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#+ +(.*?) *$", re.MULTILINE)
ID = re.compile(r'<a id="([^"]+)">')


def documents(root):
    listed = subprocess.check_output(
        ["git", "-C", root, "ls-files", "-co", "--exclude-standard", "*.md"], text=True)
    return [name for name in listed.splitlines() if os.path.exists(os.path.join(root, name))]


@functools.cache
def text_of(path):
    with open(path, encoding="utf-8") as file:
        return FENCE.sub("", file.read())


@functools.cache
def anchors_of(path):
    """The anchors of a document, as GitHub makes them of its headings, and its own ids."""
    anchors = set(ID.findall(text_of(path)))
    for heading in HEADING.findall(text_of(path)):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        anchors.add(re.sub(r"[^\w\- ]", "", words).replace(" ", "-"))
    return anchors


def links_of(root, document):
    """(target, path, anchor) of each relative link."""
    for target in LINK.findall(text_of(os.path.join(root, document))):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = urllib.parse.unquote(target).partition("#")
        folder = os.path.join(root, os.path.dirname(document))
        yield target, os.path.join(folder, path) if path else os.path.join(root, document), anchor


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", default=os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    root = parser.parse_args().root
    links = dead = 0
    for document in documents(root):
        for target, path, anchor in links_of(root, document):
            links += 1
            if not os.path.exists(path):
                dead += 1
                print(f"{document}: the link to {target} leads to no file")
            elif anchor and path.endswith(".md") and anchor not in anchors_of(path):
                dead += 1
                print(f"{document}: the link to {target} leads to no heading")
    print(f"links: {links} relative ones, {dead} dead")
    return 1 if dead else 0


if __name__ == "__main__":
    sys.exit(main())
