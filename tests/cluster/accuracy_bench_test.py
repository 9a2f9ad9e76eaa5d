#!/usr/bin/python3
"""Checks that tools/bench/accuracy trains every set, keeps the best of its grid, repeats no run and
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


def write_compressed(path, lines):
    subprocess.run(["zstd", "-qo", path], input="\n".join([*lines, ""]), text=True, check=True)


def write_numbers(directory):
    """A feature per label: any network learns it."""
    source = random.Random(1)
    os.makedirs(directory)
    for name, samples in (("train", 1500), ("test", 200)):
        labels = [source.randrange(LABELS) for _ in range(samples)]
        write_compressed(f"{directory}/{name}.txt.zst", [
            f"{samples} {LABELS} {LABELS}", *(f"{label} {label}:1" for label in labels)])


def write_text(directory):
    os.makedirs(directory)
    for name in ("train", "test"):
        write_compressed(f"{directory}/{name}.jsonl.zst", [
            json.dumps({"text": f"word{i % 5} here", "labels": [f"label{i % 5}"]})
            for i in range(200)])


def main():
    bench, build = sys.argv[1:]
    with tempfile.TemporaryDirectory() as directory:
        def run(*arguments, code=0):
            process = subprocess.run(
                [bench, "--build", build, "--sets", f"{directory}/sets", "--results",
                 f"{directory}/results.jsonl", "--kept", f"{directory}/kept.json", "--set",
                 "model.hidden=16", *arguments],
                capture_output=True, text=True, check=False, env=os.environ | {"TMPDIR": directory})
            assert process.returncode == code, process.stderr
            return process

        write_numbers(f"{directory}/sets/numbers")
        write_text(f"{directory}/sets/text")
        os.makedirs(f"{directory}/sets/vocabulary")  # has no samples

        rows = json.loads(run("--json", "--with", "text:train.epochs=3").stdout)
        assert [row["set"] for row in rows] == ["numbers", "text"], rows
        assert min(row["p_at_1"] for row in rows) > 90, rows
        assert min(row["cpu_seconds"] for row in rows) > 0, rows
        assert rows[1]["epochs"] == 3 and rows[0]["grid"] is None, rows

        again = run("--repeats", "2", "--only", "numbers")
        assert again.stderr.count("seed 2") == 1 and "seed 1" not in again.stderr, again.stderr
        assert again.stdout.splitlines()[0].startswith("| set | P@1 | seeds | P@5"), again.stdout

        short = ("--only", "numbers", "--set", "train.epochs=2", "--set", "train.batch=64")
        grid = run(*short, "--grid")
        assert grid.stderr.count("P@1") == 1 + 24, grid.stderr
        with open(f"{directory}/kept.json") as file:
            kept = json.load(file)["numbers"]
        assert kept["runs"] == 24 and "train.batch=" in kept["settings"], kept
        repeated = run(*short, "--grid", "--json")
        assert "P@1" not in repeated.stderr, repeated.stderr
        assert json.loads(repeated.stdout)[0]["grid"] == kept["p_at_1"], repeated.stdout

        for wrong, why in ((("--only", "none"), "none"), (("--repeats", "0"), "at least 1")):
            assert why in run(*wrong, code=2).stderr
        assert sorted(os.listdir(directory)) == ["kept.json", "results.jsonl", "sets"]


if __name__ == "__main__":
    main()
