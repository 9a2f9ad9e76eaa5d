#!/usr/bin/python3
"""Runs of released versions go on: each directory of tests/cluster/versions/releases is a run that a release has
left, with its data and what that release found by its model.

    releases_test.py BUILD_DIRECTORY [--make]

--make: makes the directory of the version in the build directory, which a release does once. The files
of a version are never made again: a version that cannot read them is not compatible.
"""

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
RELEASES = f"{HERE}/releases"
SAMPLES = 160
EPOCHS = 8  # of the release; later versions train as many again
MEASURES = ("p_at_1", "p_at_3", "p_at_5", "ndcg_at_5")
SCORES_DIFFER = 1e-4  # other processors add up in another order
MEASURES_DIFFER = 0.026  # one of 40 predictions whose scores are that near


class Version:
    """The executables of a build, working in a directory."""

    def __init__(self, build, directory):
        self._bin = f"{os.path.abspath(build)}/bin"
        self._directory = directory

    def dslide(self, *words):
        done = subprocess.run([f"{self._bin}/dslide", *words], cwd=self._directory, capture_output=True,
                              text=True, stdin=subprocess.DEVNULL)
        if done.returncode != 0:
            raise SystemExit(f"releases_test: dslide {' '.join(words)}: exit code {done.returncode}\n"
                             f"{done.stdout[-2000:]}{done.stderr[-2000:]}")
        return done.stdout

    def name(self):
        return self.dslide("--version").split()[-1]

    def found(self):
        """What the model in run/ finds in test.jsonl."""
        measures = json.loads(self.dslide("evaluate", "--checkpoint", "run", "--data", "test.jsonl", "--json",
                                          "--search", "exact"))
        predictions = self.dslide("predict", "--checkpoint", "run", "--data", "test.jsonl", "--top-k", "3",
                                  "--search", "exact", "--json")
        return {name: measures[name] for name in MEASURES}, [json.loads(line)
                                                             for line in predictions.splitlines()]


def write_samples(path, count, seed):
    """Texts of words that hint at their labels, and of words that do not."""
    draw = random.Random(seed)
    with open(path, "w", encoding="utf-8") as file:
        for _ in range(count):
            labels = sorted(draw.sample(range(12), draw.choice((1, 1, 2))))
            words = [f"topic{label}{draw.choice('ab')}" for label in labels for _ in range(2)]
            words += [f"word{draw.randrange(20)}" for _ in range(4)]
            draw.shuffle(words)
            print(json.dumps({"text": " ".join(words), "labels": [f"label {label}" for label in labels]}),
                  file=file)


def make(build):
    with tempfile.TemporaryDirectory(prefix="dslide-release-") as directory:
        version = Version(build, directory)
        target = f"{RELEASES}/{version.name()}"
        if os.path.exists(target):
            raise SystemExit(f"releases_test: {target}: is there already, and stays as it is")
        write_samples(f"{directory}/train.jsonl", SAMPLES, 1)
        write_samples(f"{directory}/test.jsonl", 40, 2)
        sets = {"train.data": "train.jsonl", "train.epochs": EPOCHS, "train.batch": 16, "model.hidden": 8,
                "model.precision": "bf16", "cluster.slots": 4, "cluster.executors": 1,
                "checkpoint.interval_s": 0, "checkpoint.keep": 1}
        version.dslide("train", "--run-dir", "run", "--servers", "2", "--workers", "1",
                       *[word for key, value in sets.items() for word in ("--set", f"{key}={value}")])
        measures, predictions = version.found()
        for name in os.listdir(f"{directory}/run"):
            if name not in ("checkpoint", "config.ini", "ledger"):
                path = f"{directory}/run/{name}"
                shutil.rmtree(path) if os.path.isdir(path) else os.unlink(path)
        for place, _, names in os.walk(f"{directory}/run"):
            for name in names:
                if name.startswith("LOG") or name == "LOCK":  # RocksDB makes them anew
                    os.unlink(f"{place}/{name}")
        with open(f"{directory}/found.json", "w", encoding="utf-8") as file:
            lines = ",\n".join(json.dumps(one) for one in predictions)
            file.write(f'{{"measures": {json.dumps(measures)},\n"predictions": [\n{lines}]}}\n')
        os.makedirs(RELEASES, exist_ok=True)
        shutil.copytree(directory, target)
        print(target)


def alike(one, other):
    """Whether two predictions have the same scores, and the same labels but where scores are alike."""
    if any(abs(score - before) > SCORES_DIFFER
           for score, before in zip(one["scores"], other["scores"], strict=True)):
        return False
    scores = dict(zip(other["labels"], other["scores"]))
    last = other["scores"][-1]
    return all(abs(score - scores.get(label, last)) <= SCORES_DIFFER
               for label, score in zip(one["labels"], one["scores"]))


def goes_on(version, directory, failures):
    """The run in the directory is found whole, finds the same, and goes on."""
    def check(what, holds):
        print(f"{'ok' if holds else 'FAILED'}: {what}", flush=True)
        if not holds:
            failures.append(what)

    with open(f"{directory}/found.json", encoding="utf-8") as file:
        then = json.load(file)
    version.dslide("ledger", "verify", "run")
    step = max(name for name in os.listdir(f"{directory}/run/checkpoint") if name.startswith("step-"))
    version.dslide("checkpoint", "verify", f"run/checkpoint/{step}")
    measures, predictions = version.found()
    for name in MEASURES:
        check(f"{name} {measures[name]}, then {then['measures'][name]}",
              abs(measures[name] - then["measures"][name]) < MEASURES_DIFFER)
    same = all(alike(one, other) for one, other in zip(predictions, then["predictions"], strict=True))
    check(f"the same {len(predictions)} predictions", same)

    version.dslide("train", "--resume", "--run-dir", "run", "--servers", "1", "--workers", "1", "--set",
                   f"train.epochs={2 * EPOCHS}", "--set", "train.data=train.jsonl")
    said = version.dslide("ledger", "verify", "run")
    with open(f"{directory}/run/summary.json", encoding="utf-8") as file:
        summary = json.load(file)
    check(f"trained on, {summary['samples']} samples in all", summary["samples"] == 2 * EPOCHS * SAMPLES)
    measures, _ = version.found()
    check(f"to P@1 {measures['p_at_1']}", measures["p_at_1"] > then["measures"]["p_at_1"] - 0.05)
    print(said.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--make", action="store_true")
    arguments = parser.parse_args()
    if arguments.make:
        return make(arguments.build)
    failures = []
    releases = sorted(os.listdir(RELEASES))
    if not releases:
        raise SystemExit("releases_test: there is no release to be held to")
    for release in releases:
        with tempfile.TemporaryDirectory(prefix="dslide-release-") as place:
            directory = shutil.copytree(f"{RELEASES}/{release}", f"{place}/run-of-{release}")
            print(f"{release}:", flush=True)
            goes_on(Version(arguments.build, directory), directory, failures)
    if failures:
        raise SystemExit("releases_test: " + "; ".join(failures))


if __name__ == "__main__":
    main()
