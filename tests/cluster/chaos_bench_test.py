#!/usr/bin/python3
"""Checks that tools/bench/chaos runs, prints its figures, finds a clean ledger and leaves nothing
behind.

    chaos_bench_test.py BENCH BUILD_DIRECTORY
"""

import glob
import json
import os
import subprocess
import sys
import tempfile

KEYS = ["goodput_share", "kills", "duplicated", "missing", "recovery_seconds_p50",
        "recovery_seconds_max", "p_at_1", "p_at_1_undisturbed"]


def run(bench, build, directory, *arguments):
    process = subprocess.run(
        [bench, "--build", build, "--json", "--servers", "2", "--workers", "2", *arguments,
         *("--set", "model.hidden=32", "--set", "model.negatives=200")],
        stdout=subprocess.PIPE, text=True, check=False, env=os.environ | {"TMPDIR": directory})
    assert process.returncode == 0, f"exit code {process.returncode}"
    results = json.loads(process.stdout)
    assert list(results)[:len(KEYS)] == KEYS, results
    assert results["duplicated"] == results["missing"] == 0, results
    assert results["samples_per_second_undisturbed"] > 0, results
    left = glob.glob(f"{directory}/*")
    assert not left, left
    return results


def main():
    bench, build = sys.argv[1:]
    with tempfile.TemporaryDirectory() as directory:
        results = run(bench, build, directory, "--seconds", "5", "--epochs", "1", "--interval", "1")
        assert results["kills"] > 0, results
        results = run(bench, build, directory, "--role", "server", "--replacements", "2",
                      "--synchronous", "--epochs", "1", "--interval", "1", "--set",
                      "train.target_batch=1024", "--set", "checkpoint.interval_s=1")
        assert results["kills"] == results["server_kills"] == 2, results
        assert results["same_model"], results
        assert results["recovery_seconds_max"] > 0, results


if __name__ == "__main__":
    main()
