#!/usr/bin/python3
"""Checks that tools/bench/balance runs, prints its figures and leaves nothing behind.

    balance_bench_test.py BENCH BUILD_DIRECTORY SECONDS
"""

import glob
import json
import subprocess
import sys

KEYS = {"imbalance_begin", "imbalance_end", "cpu_imbalance_begin", "cpu_imbalance_end",
        "balanced_after_s", "samples_per_second", "samples_per_second_off", "gain", "plans",
        "slots_moved", "bytes_moved", "bytes_per_slot_byte", "longest_stall_ms", "targets"}


def main():
    bench, build, seconds = sys.argv[1:]
    process = subprocess.Popen(
        [bench, "--build", build, "--situation", "skew", "--seconds", seconds, "--workers", "1",
         "--json"], stdout=subprocess.PIPE, text=True)
    output, _ = process.communicate()
    assert process.returncode in (0, 1), f"exit code {process.returncode}"
    skew = json.loads(output)["skew"]
    # So short a run may miss its targets; the exit code says so.
    met = all(target["met"] for target in skew["targets"])
    assert process.returncode == (0 if met else 1), (process.returncode, skew["targets"])
    assert set(skew) == KEYS, skew
    assert skew["samples_per_second"] > 0 and skew["samples_per_second_off"] > 0, skew
    # One server has the slots of all labels.
    assert skew["cpu_imbalance_begin"] > 1.5, skew
    left = glob.glob(f"/var/run/netns/dslide-{process.pid}-*") + glob.glob(
        f"/sys/fs/cgroup/cpu/dslide-bench-{process.pid}")
    assert not left, left


if __name__ == "__main__":
    main()
