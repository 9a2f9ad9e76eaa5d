#!/usr/bin/python3
"""Checks that tools/bench/network runs, prints its figures and leaves nothing behind.

    network_bench_test.py BENCH BUILD_DIRECTORY
"""

import glob
import json
import subprocess
import sys

LINKS = ["unshaped", "100mbit/5ms"]
KEYS = {"samples_per_second", "bytes_sent_per_sample", "bytes_received_per_sample",
        "bytes_per_sample_and_server", "wire_bytes_sent_per_sample", "share_of_first"}


def main():
    bench, build = sys.argv[1:]
    process = subprocess.Popen(
        [bench, "--build", build, "--only", "links", "--links", ",".join(LINKS), "--servers", "2",
         "--workers", "2", "--quota", "0.25", "--seconds", "10", "--json"],
        stdout=subprocess.PIPE, text=True)
    output, _ = process.communicate()
    assert process.returncode == 0, f"exit code {process.returncode}"
    rows = json.loads(output)["links"]
    assert [row["link"] for row in rows] == LINKS, rows
    for row in rows:
        assert all(row[key] > 0 for key in KEYS), row
    left = glob.glob(f"/var/run/netns/dslide-{process.pid}-*") + glob.glob(
        f"/sys/fs/cgroup/cpu/dslide-bench-{process.pid}")
    assert not left, left


if __name__ == "__main__":
    main()
