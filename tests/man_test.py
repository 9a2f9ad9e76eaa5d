#!/usr/bin/env python3
"""tools/package/make-man writes a page for each executable and command, none over another.

    tests/man_test.py BIN

BIN has the executables. Needs help2man.
"""
import gzip
import pathlib
import subprocess
import sys
import tempfile

MAKE_MAN = pathlib.Path(__file__).resolve().parent.parent / "tools" / "package" / "make-man"
EXPECTED = {"dslide": "COMMAND", "dslide-scheduler": "run-dir", "dslide-server": "bind",
            "dslide-worker": "volunteer", "dslide-status": "opportunistic workers",
            "dslide-run-gc": "finished runs"}


def main():
    with tempfile.TemporaryDirectory(prefix="dslide-man-") as directory:
        subprocess.run([MAKE_MAN, sys.argv[1], directory], check=True, stdout=subprocess.DEVNULL)
        pages = {path.name.removesuffix(".1.gz"): gzip.decompress(path.read_bytes()).decode()
                 for path in pathlib.Path(directory).iterdir()}
    for name, words in EXPECTED.items():
        if words not in pages.get(name, ""):
            sys.exit(f"the page {name} does not say {words!r}")
    for name, text in pages.items():
        if any(f".SH {head}" not in text for head in ('"EXIT STATUS"', "SIGNALS", "ENVIRONMENT")) or \
                ".B 75\ntry again later" not in text:
            sys.exit(f"the page {name} lacks exit codes or signals")
        if "exit codes" in text.lower().split('.sh "exit status"')[0]:
            sys.exit(f"the page {name} has exit codes twice")
    print(f"{len(pages)} pages")


if __name__ == "__main__":
    main()
