#!/usr/bin/env python3
"""Checks that schema/EVENTS.md lists every kind of event, and that their codes are well formed.

    tests/events_test.py [--root DIR] [--write]

The kinds are the constants of type EventKind in the sources' events.h. --write writes the document.
"""
import argparse
import os
import re
import subprocess
import sys

DOCUMENT = "schema/EVENTS.md"
KIND = re.compile(r'inline constexpr EventKind (k\w+) = \{\s*"([^"]*)",\s*((?:"[^"]*"\s*)+)(,\s*true)?\};')
CODE = re.compile(r"[a-z]+(\.[a-z]+){1,3}")
HEADER = """# Events

Every line of a log has a code, which stays when the words of the line change. A line is
`TIME LEVEL NAME [CODE] TEXT`; with `DSLIDE_LOG=json` it is an object with `code`, `message` and
`fields`. Notices and decisions of a run are in its `metrics.jsonl`, in `dslide status --events` and `--follow`
(`--json` has `code`, `text` and `fields`), on the status page and in `/api/status`. Alerts and
scripts should look at codes and fields, never at the text. `tests/events_test.py --write` writes
this file from the constants in the sources.
"""


def kinds_of(root):
    """(code, meaning, folder, name) of every kind of event."""
    listed = subprocess.run(["git", "-C", root, "ls-files", "*/events.h"], text=True,
                            capture_output=True, check=True).stdout.split()
    for path in listed:
        if path.startswith("tests/"):
            continue
        with open(os.path.join(root, path), encoding="utf-8") as file:
            source = file.read()
        found = KIND.findall(source)
        if len(found) != source.count("inline constexpr EventKind"):
            sys.exit(f"events_test: {path}: a constant is not written as the others")
        for name, code, texts, _ in found:
            meaning = "".join(re.findall(r'"([^"]*)"', texts))
            yield code, meaning, os.path.dirname(path), name


def unused(root, kinds):
    """Names of constants that no source uses."""
    used = subprocess.run(["git", "-C", root, "grep", "-ohE", r"event::k\w+", "--", "*.cc", "*.h"],
                          text=True, capture_output=True, check=True).stdout.split()
    return sorted({name for _, _, _, name in kinds} - {word.partition("::")[2] for word in used})


def document_of(kinds):
    roles = {"common/log": "all processes", "scheduler/base": "scheduler", "server/base": "server",
             "worker": "worker", "tools/dslide/serve": "dslide serve",
             "tools/dslide/cluster": "dslide train"}
    lines = [HEADER]
    for folder in sorted({folder for _, _, folder, _ in kinds}):
        lines += [f"## {roles[folder][0].upper()}{roles[folder][1:]}", "", "| code | when |", "|---|---|"]
        lines += [f"| `{code}` | {meaning} |" for code, meaning, at, _ in sorted(kinds) if at == folder]
        lines += [""]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", default=os.path.join(os.path.dirname(__file__), ".."))
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    kinds = list(kinds_of(options.root))
    failures = [f"{code}: not words with dots between" for code, *_ in kinds if not CODE.fullmatch(code)]
    codes = [code for code, *_ in kinds]
    failures += [f"{code}: more than once" for code in sorted({c for c in codes if codes.count(c) > 1})]
    failures += [f"{name}: no source uses it" for name in unused(options.root, kinds)]
    path = os.path.join(options.root, DOCUMENT)
    if options.write:
        with open(path, "w", encoding="utf-8") as file:
            file.write(document_of(kinds))
    with open(path, encoding="utf-8") as file:
        if file.read() != document_of(kinds):
            failures.append(f"{DOCUMENT} is not what the sources say: run tests/events_test.py --write")
    if failures:
        sys.exit("events_test: " + "\n".join(failures))
    print(f"events: {len(kinds)} kinds")


if __name__ == "__main__":
    main()
