#!/usr/bin/python3 -B
"""The pod of configs/kubernetes/serve, run in the image as the manifest says: its probes say when it is
ready, predictions need the token, the model's volume cannot be written, and SIGTERM ends it in time.

    kubernetes_serve_test.py BUILD_DIRECTORY
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time

import manifests
from debian_root import ROOT, run
from kubernetes_test import BASE, DATA, Container, Pods, of_kind

SERVE, CLIENT = "dslide-serve", "client"
TOKEN = "a-token-of-the-test"
SAMPLES = 2000

ASK = """
import sys, urllib.error, urllib.request
url, token, body = sys.argv[1:]
headers = {"Authorization": "Bearer " + token} if token else {}
request = urllib.request.Request(url, data=body.encode() or None, headers=headers)
try:
    with urllib.request.urlopen(request, timeout=10) as answer:
        print(answer.status, answer.read().decode())
except urllib.error.HTTPError as error:
    print(error.code, "")
except OSError:
    print(0, "")
"""


def train(build, directory):
    """A model's file in a volume that others may read."""
    data, volume = f"{directory}/train.jsonl", f"{directory}/model"
    run("sh", "-c", f"zstd -dc {DATA}/train.jsonl.zst | head -n {SAMPLES} > {data}")
    run(f"{build}/bin/dslide", "train", "--set", f"train.data={data}", "--set", "train.epochs=1", "--servers",
        "1", "--workers", "1", "--run-dir", f"{directory}/run")
    os.mkdir(volume)
    run(f"{build}/bin/dslide", "export", f"{directory}/run", "--to", f"{volume}/model.dslide", "--data", data)
    run("chmod", "-R", "a+rX", volume)
    return volume


def secret(directory):
    """A volume of a Secret, which its group may read."""
    volume = f"{directory}/token"
    os.mkdir(volume)
    with open(f"{volume}/token", "w", encoding="utf-8") as file:
        file.write(TOKEN)
    for path, mode in ((volume, 0o750), (f"{volume}/token", 0o440)):
        os.chown(path, 0, 10001)
        os.chmod(path, mode)
    return volume


class Asker:
    """Asks the pod from another one."""

    def __init__(self, network, container):
        self._network = network
        self._ports = {port["name"]: port["containerPort"] for port in container["ports"]}

    def __call__(self, path, port="http", token="", body=""):
        url = f"http://{self._network.address(SERVE)}:{self._ports[port]}{path}"
        status, _, text = run("ip", "netns", "exec", self._network.namespace(CLIENT), "/usr/bin/python3", "-c",
                              ASK, url, token, body).partition(" ")
        return int(status), text

    def probe(self, one):
        return self(one["httpGet"]["path"], one["httpGet"]["port"])[0] == 200


def check_pod(network, deployment, volumes, directory):
    container = manifests.pod_of(deployment)["containers"][0]
    pod = Container(network, SERVE, deployment, container, volumes, {}, directory)
    try:
        ask = Asker(network, container)
        startup = container["startupProbe"]
        end = time.monotonic() + startup["periodSeconds"] * startup["failureThreshold"]
        while not ask.probe(startup):
            if pod.process.poll() is not None or time.monotonic() > end:
                raise SystemExit(f"kubernetes_serve_test: it does not start\n{pod.text()}")
            time.sleep(0.1)
        assert ask.probe(container["readinessProbe"]) and ask.probe(container["livenessProbe"])
        question = json.dumps({"text": "Einführung in die Informatik", "k": 3})
        assert ask("/predict", body=question)[0] == 401
        status, answer = ask("/predict", token=TOKEN, body=question)
        assert status == 200 and len(json.loads(answer)["predictions"][0]["labels"]) == 3, answer
        print("ok: probes, and predictions with the token", flush=True)
        for path in ("/model/x", "/token/x", "/x"):
            written = subprocess.run(["podman", "exec", pod.name, "touch", path], capture_output=True, check=False)
            assert written.returncode != 0, f"{path} can be written"
        who = run("podman", "exec", pod.name, "id", "-u").strip()
        assert who == "10001", who
        print("ok: it is not root, and writes nothing", flush=True)
        run("podman", "kill", "--signal", str(int(signal.SIGTERM)), pod.name)
        grace_s = manifests.pod_of(deployment)["terminationGracePeriodSeconds"]
        assert pod.process.wait(timeout=grace_s) == 0, pod.text()
        print("ok: SIGTERM ends it")
    finally:
        pod.stop()


def main():
    build = os.path.abspath(sys.argv[1])
    run(f"{ROOT}/tools/package/image", build, cwd=ROOT)
    deployment = of_kind(manifests.build(f"{BASE}/serve"), "Deployment", SERVE)
    with tempfile.TemporaryDirectory(prefix="dslide-serve-") as directory, Pods([SERVE, CLIENT]) as network:
        os.chmod(directory, 0o755)
        with open(f"{directory}/hosts", "w", encoding="utf-8") as file:
            file.write("127.0.0.1 localhost\n")
        check_pod(network, deployment, {"model": train(build, directory), "token": secret(directory)}, directory)


if __name__ == "__main__":
    main()
