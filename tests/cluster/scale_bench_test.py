#!/usr/bin/python3
"""Checks that tools/bench/scale runs, prints its figures and leaves nothing behind.

    scale_bench_test.py BENCH BUILD_DIRECTORY
"""

import glob
import json
import os
import subprocess
import sys
import tempfile


def main():
    bench, build = sys.argv[1:]
    with tempfile.TemporaryDirectory() as directory:
        process = subprocess.run(
            [bench, "--build", build, "--servers", "1,2", "--json", "--synthetic",
             "labels=5000,features=5000,samples=240000,per_sample=10",
             "--set", "model.negatives=200"],
            stdout=subprocess.PIPE, text=True, check=False, env=os.environ | {"TMPDIR": directory})
        assert process.returncode == 0, f"exit code {process.returncode}"
        results = json.loads(process.stdout)
        one, two = results["sizes"]
        assert [one["servers"], two["servers"]] == [1, 2], results
        for size in (one, two):
            roles = [size[f"{role}_us_per_sample"] for role in ("server", "worker", "scheduler")]
            assert min(roles) > 0, size
            assert abs(sum(roles) - size["cpu_us_per_sample"]) < 1e-6 * sum(roles), size
            assert size["samples_per_second"] > 0 and size["peak_mb"] > 0, size
        # How many bytes a batch takes depends on how long the model has learned: the two clusters are
        # measured at moments of their own.
        assert min(one["bytes_per_sample"], two["bytes_per_sample"]) > 2 * 128, results
        assert two["segments_per_batch"] > one["segments_per_batch"] > 4, results
        # Both servers have neurons: they get the hidden activations and send gradients. One has the
        # input rows.
        assert [size["messages_per_batch"] for size in (one, two)] == [4, 10], results
        further = results["further_server_ms_per_batch"]
        wanted = two["cpu_ms_per_batch"] - one["cpu_ms_per_batch"]
        assert abs(further["least_squares"] - wanted) < 1e-6, further
        assert not glob.glob(f"{directory}/*")


if __name__ == "__main__":
    main()
