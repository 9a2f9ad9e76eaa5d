#!/usr/bin/python3
"""Checks that tools/bench/idle runs, prints its figures and leaves nothing behind.

    idle_bench_test.py BENCH BUILD_DIRECTORY
"""

import json
import os
import subprocess
import sys
import tempfile


def main():
    bench, build = sys.argv[1:]
    with tempfile.TemporaryDirectory() as directory:
        done = subprocess.run([bench, "--build", build, "--seconds", "1", "--rounds", "1", "--json"],
                              stdout=subprocess.PIPE, text=True, check=False,
                              env=os.environ | {"TMPDIR": directory})
        left = os.listdir(directory)
    assert not left, left
    assert done.returncode == 0, f"exit code {done.returncode}"
    tables = json.loads(done.stdout)
    rows = {row["worker"]: row for row in tables["competitors"]}
    assert len(rows) == 5, rows
    assert all(row["competitors_cpu_per_s"] > 0 for row in rows.values()), rows
    assert rows["the defaults: pauses"]["trains_again_s"]["most"] > 0, rows
    assert [row["key"] for row in tables["caps"]] == ["idle.cpu_share", "idle.upload_kbit",
                                                      "idle.download_kbit"], tables


if __name__ == "__main__":
    main()
