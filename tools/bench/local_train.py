"""One run of `dslide train` on this machine, and what its summary says."""

import configparser
import json
import shutil
import signal

from netlab import Process, signals_ignored


def train(build, directory, sets, servers=1, workers=1):
    """summary.json and config.ini of a run with these settings. The run is removed afterwards."""
    run_dir = f"{directory}/run"
    command = [f"{build}/bin/dslide", "train", "--servers", str(servers), "--workers", str(workers),
               "--run-dir", run_dir, *(word for pair in sets for word in ("--set", pair))]
    process = Process("dslide train", command, f"{directory}/train.log")
    try:
        process.wait(None)
        config = configparser.RawConfigParser(strict=False, inline_comment_prefixes=("#",))
        config.read(f"{run_dir}/config.ini")
        with open(f"{run_dir}/summary.json") as file:
            return json.load(file), config
    finally:
        with signals_ignored():
            process.end(signal.SIGTERM)
        shutil.rmtree(run_dir, ignore_errors=True)
