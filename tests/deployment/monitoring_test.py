#!/usr/bin/python3
"""A real Prometheus watches a run: names and units are as promtool wants them, the rules and their test
pass, and every expression of the rules and of the dashboard finds something.

    monitoring_test.py BUILD_DIRECTORY
"""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CONFIGS = f"{ROOT}/configs/prometheus"
DATA = f"{ROOT}/tools/data/gnd-subset"
DEADLINE_S = 120


def port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def get(url):
    with urllib.request.urlopen(url, timeout=10) as answer:
        return answer.read().decode()


def expressions():
    with open(f"{CONFIGS}/dashboard.json", encoding="utf-8") as file:
        for panel in json.load(file)["panels"]:
            for target in panel["targets"]:
                yield panel["title"], target["expr"]


def main():
    build = os.path.abspath(sys.argv[1])
    for command in (["promtool", "check", "rules", "alerts.yml"],
                    ["promtool", "test", "rules", "alerts_test.yml"],
                    ["promtool", "check", "config", "--syntax-only", "prometheus.yml"]):
        done = subprocess.run(command, cwd=CONFIGS, capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(f"monitoring_test: {' '.join(command)}: {done.stdout}{done.stderr}")
    processes = []
    with tempfile.TemporaryDirectory(prefix="dslide-monitoring-") as directory:
        try:
            page, listen = port(), port()
            log = open(f"{directory}/train.log", "wb")
            processes.append(subprocess.Popen(
                [f"{build}/bin/dslide", "train", "--servers", "2", "--workers", "2", "--run-dir",
                 f"{directory}/run", "--set", f"train.data={DATA}/train.jsonl.zst", "--set",
                 f"train.test={DATA}/test.jsonl.zst", "--set", "train.epochs=1000", "--set",
                 "train.evaluate_samples=200", "--set", "model.hidden=32", "--set", "checkpoint.hook=true", "--set",
                 "cluster.executors=1", "--set", f"cluster.status_bind=tcp://127.0.0.1:{page}"],
                stdout=log, stderr=log, stdin=subprocess.DEVNULL))
            shutil.copy(f"{CONFIGS}/alerts.yml", directory)
            with open(f"{directory}/prometheus.yml", "w", encoding="utf-8") as file:
                file.write("global: {scrape_interval: 1s, evaluation_interval: 1s}\n"
                           "rule_files: [alerts.yml]\n"
                           "scrape_configs: [{job_name: dslide, static_configs: "
                           f"[{{targets: ['127.0.0.1:{page}']}}]}}]\n")
            log = open(f"{directory}/prometheus.log", "wb")
            processes.append(subprocess.Popen(
                ["prometheus", f"--config.file={directory}/prometheus.yml",
                 f"--storage.tsdb.path={directory}/data", f"--web.listen-address=127.0.0.1:{listen}"],
                stdout=log, stderr=log, stdin=subprocess.DEVNULL))

            def query(expression):
                url = f"http://127.0.0.1:{listen}/api/v1/query?" + urllib.parse.urlencode(
                    {"query": expression})
                return json.loads(get(url))["data"]["result"]

            left = list(expressions())
            print(f"{len(left)} expressions")
            end = time.monotonic() + DEADLINE_S
            while left:
                if processes[0].poll() is not None:
                    raise SystemExit("monitoring_test: the run has ended: " +
                                     open(f"{directory}/train.log").read()[-2000:])
                if time.monotonic() > end:
                    raise SystemExit(f"monitoring_test: found nothing for {left}\n" +
                                     get(f"http://127.0.0.1:{page}/metrics"))
                try:
                    left = [(title, expression) for title, expression in left
                            if not query(expression)]
                except urllib.error.HTTPError as error:
                    raise SystemExit(f"monitoring_test: {error.read().decode()}") from error
                except OSError:
                    pass  # Prometheus is not ready yet
                time.sleep(0.5)
            text = get(f"http://127.0.0.1:{page}/metrics")
            done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True,
                                  text=True)
            if done.returncode != 0 or done.stderr:
                raise SystemExit(f"monitoring_test: promtool check metrics: {done.stderr}")
            names = set(re.findall(r"dslide_\w+", text))
            with open(f"{CONFIGS}/alerts.yml", encoding="utf-8") as file:
                unknown = set(re.findall(r"dslide_\w+", file.read())) - names
            if unknown:
                raise SystemExit(f"monitoring_test: rules use {unknown}, which are not there")
            firing = query("ALERTS{alertstate='firing'}")
            if firing:
                raise SystemExit(f"monitoring_test: alerts of a run that is well: {firing}")
            print(f"ok: {len(names)} names, every expression finds something, no alert")
        finally:
            for process in reversed(processes):
                process.terminate()
                process.wait()


if __name__ == "__main__":
    main()
