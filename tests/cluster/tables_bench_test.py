#!/usr/bin/python3
"""Checks the arithmetic of tools/bench/tables, and that it runs and leaves only its files behind.

    tables_bench_test.py BENCH BUILD_DIRECTORY
"""

import glob
import importlib.machinery
import importlib.util
import json
import os
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True


def load(path):
    loader = importlib.machinery.SourceFileLoader("tables", path)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("tables", loader))
    sys.modules["tables"] = module  # its data classes look their module up
    loader.exec_module(module)
    return module


def check_arithmetic(tables):
    summary = {"samples_per_second": 400.0, "train_cpu_seconds": 3.0, "samples": 1000,
               "p_at_1": 0.5, "bytes_sent_per_sample": 70.0, "bytes_received_per_sample": 80.0,
               "peak_rss_mb": 10.0, "active_rows_per_batch": 20.0}
    row = tables.figures(summary, 8000, True)
    assert row == {"epoch_s": 20.0, "samples_per_second": 400.0, "cpu_us_per_sample": 3000.0,
                   "p_at_1": 50.0, "bytes_per_sample": 150.0, "peak_rss_mb": 10.0, "rows": 20.0}, row
    assert tables.figures(summary, 8000, False)["p_at_1"] is None
    assert tables.figures(summary | {"samples_per_second": 0}, 8000, True)["epoch_s"] is None
    names = [(name, servers) for name, servers, _ in tables.ways([1, 4])]
    assert names == [("1 server", 1), ("4 servers", 4), ("SLIDE's settings", 1)], names


def check_choice(tables):
    def chosen(*words):
        return list(tables.shapes_of(tables.parse_arguments(words)))

    assert chosen() == ["Delicious-200K", "Amazon-670K", "WikiLSHTC-325K", "Text8"]
    assert chosen("--shapes", "Text8") == ["Text8"]
    assert chosen("--shapes", "none") == []
    assert chosen("--quick") == ["small"]
    try:
        chosen("--shapes", "Text9")
    except tables.BenchError as error:
        assert error.exit_code == 2
    else:
        raise AssertionError("an unknown shape was taken")


def check_run(bench, build, directory):
    process = subprocess.run(
        [bench, "--build", build, "--quick", "--servers", "1,2", "--samples", "4000", "--html",
         f"{directory}/t.html", "--markdown", f"{directory}/t.md", "--results",
         f"{directory}/t.jsonl"], stdout=subprocess.PIPE, text=True, check=False,
        env=os.environ | {"TMPDIR": directory})
    assert process.returncode == 0, f"exit code {process.returncode}"
    assert process.stdout == ""
    with open(f"{directory}/t.jsonl") as file:
        rows = [json.loads(line) for line in file]
    assert [row["servers"] for row in rows] == [1, 2, 1], rows
    for row in rows:
        assert row["samples_per_second"] > 0 and row["peak_rss_mb"] > 0, row
        # An epoch of the set is one of the samples that it was shortened to, five times.
        assert abs(row["epoch_s"] * row["samples_per_second"] - 20000) < 1, row
    # To two servers go the activations of two parts of the neurons.
    assert rows[1]["bytes_per_sample"] > rows[0]["bytes_per_sample"], rows
    with open(f"{directory}/t.md") as file:
        text = file.read()
    assert text.count("\n| ") == 5 and "SLIDE's settings" in text, text
    with open(f"{directory}/t.html") as file:
        page = file.read()
    assert page.count("<svg") == 2 and page.count("<tr>") == 4, page
    left = sorted(map(os.path.basename, glob.glob(f"{directory}/*")))
    assert left == ["t.html", "t.jsonl", "t.md"], left


def main():
    bench, build = sys.argv[1:]
    tables = load(bench)
    check_arithmetic(tables)
    check_choice(tables)
    with tempfile.TemporaryDirectory() as directory:
        check_run(bench, build, directory)


if __name__ == "__main__":
    main()
