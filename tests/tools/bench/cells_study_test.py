#!/usr/bin/python3
"""Checks the arithmetic of tools/bench/cells/study, and that it runs what its results file lacks.

    cells_study_test.py STUDY BUILD_DIRECTORY
"""

import importlib.machinery
import importlib.util
import json
import os
import random
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True


def load(path):
    loader = importlib.machinery.SourceFileLoader("study", path)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("study", loader))
    loader.exec_module(module)
    return module


def check_grids(study):
    assert study.expanded("groups=2,4 exact rule=sum") == ["groups=2 exact rule=sum",
                                                           "groups=4 exact rule=sum"]
    assert study.expanded("groups=2 exchange=1,2") == ["groups=2 exchange=1", "groups=2 exchange=2"]
    assert study.line_of("groups=2 exchange=8 rule=sum") == "groups=2 rule=sum"
    assert study.line_of("visits=4") == "visits"
    lines = ["groups=1", "groups=2 rule=sum", "groups=4 rule=sum", "visits"]
    assert list(study.legends(lines).values()) == ["groups=1", "groups=2", "groups=4", "visits"]


def record(precision, direct=0, owner=0):
    return {"p_at_1": precision, "p_at_5": 20, "direct_bytes_per_sample": direct,
            "owner_bytes_per_sample": owner, "train_cpu_seconds": 3, "exchanges": 2,
            "sent_share": 0.5}


def check_table(study):
    rows = study.table_of({"groups=1": [record(50), record(52)],
                           "groups=2": [record(49, 70, 90), record(50, 80, 60)]})
    assert [row["p_at_1"] for row in rows] == [51, 49.5]
    assert [row["difference"] for row in rows] == [0, -1.5]
    assert abs(rows[0]["deviation"] - 2 ** 0.5) < 1e-9
    assert rows[1]["bytes"] == 65  # of each seed the cheaper way
    assert study.table_of({"groups=2": [record(49)]})[0]["difference"] is None
    assert study.bytes_of({"visits": 3.5, "bytes_per_sample": 7}) == 7


def write_data(path, samples):
    source = random.Random(3)
    with open(path, "w") as file:
        file.write(f"{samples} 40 30\n")
        for _ in range(samples):
            label = source.randrange(30)
            file.write(f"{label} {label}:1 {30 + source.randrange(10)}:0.5\n")


def check_run(path, build, directory):
    data = f"{directory}/data"
    os.mkdir(data)
    for name, samples in (("train", 300), ("test", 60)):
        write_data(f"{data}/{name}.txt", samples)
        subprocess.run(["zstd", "-q", "--rm", f"{data}/{name}.txt"], check=True)
    command = [path, "--build", build, "--data", data, "--seeds", "2", "--set", "model.hidden=16",
               "--set", "train.epochs=2", "--set", "train.batch=20", "--results",
               f"{directory}/found.jsonl", "--plot", f"{directory}/found.svg", "groups=1,2",
               "visits=1"]
    first = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    lines = first.splitlines()
    assert len(lines) == 5, first
    with open(f"{directory}/found.jsonl") as file:
        records = [json.loads(line) for line in file]
    assert len(records) == 6, records
    assert all(one["samples"] == 600 for one in records), records
    for one in records:
        assert ("visits" in one) == ("visits" in one["run"]["cell"]), one
    again = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    assert again == first
    with open(f"{directory}/found.svg") as file:
        assert file.read().count("<circle") == 3


def main():
    path, build = sys.argv[1:]
    study = load(path)
    check_grids(study)
    check_table(study)
    with tempfile.TemporaryDirectory() as directory:
        check_run(path, build, directory)


if __name__ == "__main__":
    main()
