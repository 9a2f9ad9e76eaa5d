#!/usr/bin/python3
"""Checks that tools/bench/accuracy trains what is asked for, repeats no run and leaves only its
results behind.

    accuracy_bench_test.py BENCH BUILD_DIRECTORY
"""

import glob
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
    for name, samples in (("train", 4000), ("dev", 200)):
        labels = [source.randrange(LABELS) for _ in range(samples)]
        lines = [f"{samples} {LABELS} {LABELS}", *(f"{label} {label}:1" for label in labels), ""]
        subprocess.run(["zstd", "-qo", f"{directory}/{name}.txt.zst"], input="\n".join(lines),
                       text=True, check=True)


def write_text(directory):
    for name in ("train", "dev"):
        lines = [json.dumps({"text": f"word{i % 5} here", "labels": [f"label{i % 5}"]}) for i in range(200)]
        subprocess.run(["zstd", "-qo", f"{directory}/{name}.jsonl.zst"], input="\n".join(lines), text=True,
                       check=True)


def run(bench, build, directory, *arguments, data="set"):
    process = subprocess.run(
        [bench, "--build", build, "--data", f"{directory}/{data}", "--on", "dev", "--hidden", "16",
         "--epochs", "4", "--results", f"{directory}/results.jsonl", "--plot", directory,
         "--set", "train.batch=16", *arguments],
        capture_output=True, text=True, check=False, env=os.environ | {"TMPDIR": directory})
    assert process.returncode == 0, process.stderr
    return process


def main():
    bench, build = sys.argv[1:]
    with tempfile.TemporaryDirectory() as directory:
        os.mkdir(f"{directory}/set")
        write_set(f"{directory}/set")
        asked = ("--active", "sampled,all", "--rows", "10,40", "--vary", "train.dropout_hidden=0")
        rows = json.loads(run(bench, build, directory, *asked, "--json").stdout)["rows"]
        assert [(row["active"], row["rows"]) for row in rows] == [
            ("sampled", "10"), ("sampled", "40"), ("all", "")], rows
        few, more, every = (row["active_rows_per_batch"] for row in rows)
        assert few < more < every == LABELS, rows
        assert min(row["p_at_1"] for row in rows) > 90, rows
        assert min(row["train_cpu_seconds"] for row in rows) > 0, rows

        again = run(bench, build, directory, *asked, "--repeats", "2")
        assert again.stderr.count("seed 2") == 3 and "seed 1" not in again.stderr, again.stderr
        assert again.stdout.count("\n") == 2 + 3, again.stdout
        os.mkdir(f"{directory}/text")
        write_text(f"{directory}/text")
        row, = json.loads(run(bench, build, directory, "--json", data="text").stdout)["rows"]
        assert row["p_at_1"] > 90, row
        left = sorted(map(os.path.basename, glob.glob(f"{directory}/*")))
        assert left == ["accuracy-set.svg", "accuracy-text.svg", "results.jsonl", "set", "text"], left


if __name__ == "__main__":
    main()
