#!/usr/bin/python3
"""Checks that tools/bench/accuracy trains a set, keeps the best of its grid, repeats no run and
leaves only its results behind.

    accuracy_bench_test.py BENCH BUILD_DIRECTORY
"""

import json
import os
import random
import subprocess
import sys
import tempfile

LABELS = 100


def write_set(directory):
    """A feature per label: any network learns it."""
    source = random.Random(1)
    os.makedirs(directory)
    for name, samples in (("train", 1500), ("test", 200)):
        labels = [source.randrange(LABELS) for _ in range(samples)]
        lines = [f"{samples} {LABELS} {LABELS}", *(f"{label} {label}:1" for label in labels), ""]
        subprocess.run(["zstd", "-qo", f"{directory}/{name}.txt.zst"], input="\n".join(lines),
                       text=True, check=True)


def main():
    bench, build = sys.argv[1:]
    with tempfile.TemporaryDirectory() as directory:
        def run(*arguments):
            return subprocess.run(
                [bench, "--build", build, "--sets", f"{directory}/sets", "--results",
                 f"{directory}/results.jsonl", "--kept", f"{directory}/kept.json", "--set",
                 "model.hidden=16", *arguments],
                capture_output=True, text=True, check=True, env=os.environ | {"TMPDIR": directory})

        write_set(f"{directory}/sets/numbers")
        row, = json.loads(run("--json").stdout)
        assert row["set"] == "numbers" and row["p_at_1"] > 90 and row["cpu_seconds"] > 0, row
        again = run("--repeats", "2")
        assert again.stderr.count("seed 2") == 1 and "seed 1" not in again.stderr, again.stderr
        assert again.stdout.startswith("| set | P@1 | seeds | P@5"), again.stdout

        short = ("--set", "train.epochs=2", "--set", "train.batch=64", "--grid", "--json")
        assert run(*short).stderr.count("P@1") == 1 + 24
        with open(f"{directory}/kept.json") as file:
            kept = json.load(file)["numbers"]
        repeated = run(*short)
        assert "P@1" not in repeated.stderr, repeated.stderr
        assert json.loads(repeated.stdout)[0]["grid"] == kept["p_at_1"], repeated.stdout
        assert sorted(os.listdir(directory)) == ["kept.json", "results.jsonl", "sets"]


if __name__ == "__main__":
    main()
