#!/usr/bin/python3 -B
"""The Debian package: lintian has nothing against it, it has the same bytes each time, and on a bare
Debian system, from installing it to predictions, it needs less than three minutes and no compiler.

    deb_test.py BUILD_DIRECTORY
"""

import os
import shutil
import sys
import time

from debian_root import ROOT, DebianRoot, check, digest, run

MOST_S = 180
# No package of the archive: nobody has filed an intent to package it.
IGNORED_TAGS = "initial-upload-closes-no-bugs"


def main():
    build = os.path.abspath(sys.argv[1])
    package = run(f"{ROOT}/tools/package/deb", build, cwd=ROOT).split()[-1]
    package = os.path.join(ROOT, package)
    first = digest(package)
    run(f"{ROOT}/tools/package/deb", build, cwd=ROOT)
    check(f"the same bytes twice, {os.path.getsize(package) / 1e6:.1f} MB", digest(package) == first)
    run("lintian", "--fail-on", "error,warning", "--suppress-tags", IGNORED_TAGS, "--allow-root",
        package)
    check("lintian has nothing against it", True)

    with DebianRoot() as debian:
        shutil.copy(package, f"{debian.path}/root/dslide.deb")
        debian.run("apt-get", "update")
        check("the system has no compiler",
              not os.path.exists(f"{debian.path}/usr/bin/cc") and
              not os.path.exists(f"{debian.path}/usr/bin/dslide"))
        began = time.monotonic()
        debian.run("apt-get", "install", "-y", "--no-install-recommends", "./dslide.deb")
        installed_s = time.monotonic() - began
        said = debian.run("dslide", "quickstart")
        took_s = time.monotonic() - began
        print(said)
        with open(f"{debian.path}/root/runs/quickstart-1/predictions.txt", encoding="utf-8") as file:
            predictions = sum(1 for _ in file)
        check(f"{predictions} predictions", predictions >= 2500)
        check(f"{took_s:.0f} s, of which {installed_s:.0f} s to install", took_s < MOST_S)
        check("no compiler has come along", not os.path.exists(f"{debian.path}/usr/bin/cc"))
        pages = os.listdir(f"{debian.path}/usr/share/man/man1") if os.path.exists(
            f"{debian.path}/usr/share/man/man1") else []
        print(f"pages of the manual: {sum(name.startswith('dslide') for name in pages)}")


if __name__ == "__main__":
    main()
