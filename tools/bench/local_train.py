"""One run of `dslide train` on this machine, and what its summary says."""

import configparser
import json
import shutil
import signal

from netlab import Process, signals_ignored


def train(build, directory, sets, servers=1, workers=1):
    """summary.json of a run with these settings, which is gone afterwards."""
    return train_and_read(build, directory, sets, servers, workers)[0]


def train_and_read(build, directory, sets, servers=1, workers=1):
    """As train(), and the run's config.ini by section and key."""
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
