#!/usr/bin/python3
"""The systemd units: systemd finds nothing wrong, and they are shut off from the system well enough.

    systemd_test.py BUILD_DIRECTORY
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
UNITS = f"{ROOT}/tools/package/systemd"
MOST_EXPOSED = 2.5  # of 10, by `systemd-analyze security`


def main():
    build = os.path.abspath(sys.argv[1])
    failures = []
    with tempfile.TemporaryDirectory(prefix="dslide-units-") as directory:
        for name in sorted(os.listdir(UNITS)):
            unit = f"{directory}/{name.replace('@', '@1')}"
            shutil.copy(f"{UNITS}/{name}", unit)
            with open(unit, encoding="utf-8") as file:
                text = file.read()
            # The executables of the build directory, which are not installed.
            text = text.replace("/usr/bin/dslide-", f"{build}/bin/dslide-")
            text = re.sub(r"^Documentation=.*\n", "", text, flags=re.MULTILINE)
            with open(unit, "w", encoding="utf-8") as file:
                file.write(text)
            done = subprocess.run(["systemd-analyze", "verify", "--recursive-errors=no", unit],
                                  capture_output=True, text=True)
            if done.returncode != 0 or done.stderr:
                failures.append(f"{name}: {done.stderr or done.stdout}")
            done = subprocess.run(["systemd-analyze", "security", "--offline=yes", unit],
                                  capture_output=True, text=True)
            level = re.search(r"exposure level for .*: ([0-9.]+)", done.stdout)
            print(f"{name}: exposure {level[1] if level else done.stderr}")
            if level is None or float(level[1]) > MOST_EXPOSED:
                failures.append(f"{name}: is too exposed\n{done.stdout}")
    if failures:
        raise SystemExit("systemd_test: " + "\n".join(failures))


if __name__ == "__main__":
    main()
