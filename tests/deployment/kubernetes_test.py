#!/usr/bin/python3 -B
"""The Kubernetes manifests: every field exists and has the right type, and each container's command
runs as it is written, in the image, as the user and with the volumes and variables of the manifest: a
run from keys to its last evaluation.

    kubernetes_test.py BUILD_DIRECTORY
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

import manifests
from debian_root import ROOT, run

BASE = f"{ROOT}/configs/kubernetes"
DATA = f"{ROOT}/tools/data/gnd-subset"
SAMPLES = 4000
SCHEDULER = "dslide-scheduler"


class Pods:
    """A network of pods: a namespace each, on a bridge in one of its own."""

    def __init__(self, names):
        self._tag = f"dslide-{os.getpid()}"
        self._names = names

    def namespace(self, name):
        return f"{self._tag}-{self._names.index(name)}"

    def address(self, name):
        return f"10.78.0.{2 + self._names.index(name)}"

    def __enter__(self):
        try:
            run("ip", "netns", "add", f"{self._tag}-hub")
            self._in("hub", "link", "add", "br0", "type", "bridge")
            self._in("hub", "link", "set", "br0", "up")
            for i, name in enumerate(self._names):
                run("ip", "netns", "add", f"{self._tag}-{i}")
                self._in("hub", "link", "add", f"p{i}", "type", "veth", "peer", "name", "eth0", "netns",
                         f"{self._tag}-{i}")
                self._in("hub", "link", "set", f"p{i}", "master", "br0", "up")
                self._in(i, "addr", "add", f"{self.address(name)}/24", "dev", "eth0")
                self._in(i, "link", "set", "eth0", "up")
                self._in(i, "link", "set", "lo", "up")
        except BaseException:
            self.__exit__()
            raise
        return self

    def _in(self, which, *words):
        run("ip", "-n", f"{self._tag}-{which}", *words)

    def __exit__(self, *_):
        for which in ["hub", *range(len(self._names))]:
            subprocess.run(["ip", "netns", "del", f"{self._tag}-{which}"], capture_output=True)


class Container:
    """A container of a pod, as podman runs it."""

    def __init__(self, pods, pod, thing, container, volumes, variables, directory):
        spec = manifests.pod_of(thing)
        closed = spec["securityContext"]
        self.name = f"dslide-{os.getpid()}-{pod}-{container['name']}"
        self.log = f"{directory}/{pod}-{container['name']}.log"
        # runc, because crun wants either version of cgroups, and machines may have both.
        command = ["podman", "--runtime=runc", "--cgroup-manager=cgroupfs", "run", "--rm", "--name",
                   self.name, "--ulimit=nofile=1024:1024", "--ulimit=nproc=1024:1024",
                   f"--network=ns:/run/netns/{pods.namespace(pod)}", "--no-hosts",
                   "--user", f"{closed['runAsUser']}:{closed['runAsGroup']}"]
        if container["securityContext"]["readOnlyRootFilesystem"]:
            command += ["--read-only", "--read-only-tmpfs=false"]
        command += ["--cap-drop=" + one for one in container["securityContext"]["capabilities"]["drop"]]
        hosts = f"{directory}/hosts"
        command += ["-v", f"{hosts}:/etc/hosts:ro"]
        values = {}
        for one in container.get("env", []):
            source = one.get("valueFrom", {})
            if "fieldRef" in source:
                values[one["name"]] = pod
            elif "secretKeyRef" in source:
                values[one["name"]] = variables[source["secretKeyRef"]["name"]][
                    source["secretKeyRef"]["key"]]
            else:
                values[one["name"]] = one["value"]
        for name, value in values.items():
            command += ["-e", f"{name}={value}"]
        for mount in container.get("volumeMounts", []):
            mode = "ro" if mount.get("readOnly") else "rw"
            command += ["-v", f"{volumes[mount['name']]}:{mount['mountPath']}:{mode}"]
        words = container["command"] + container["args"]
        for name, value in values.items():
            words = [word.replace(f"$({name})", value) for word in words]
        # The last word of an image's name is its tag here; podman looks for it in its own store.
        command += [f"localhost/{container['image']}", *words]
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)

    def stop(self):
        subprocess.run(["podman", "rm", "-f", "-t", "0", self.name], capture_output=True)
        self.process.wait()

    def text(self):
        with open(self.log, encoding="utf-8", errors="replace") as file:
            return file.read()


def of_kind(objects, kind, name):
    return next(one for one in objects if one["kind"] == kind and one["metadata"]["name"] == name)


def check_manifests():
    for name in ("base", "overlays/spot", "overlays/small", "serve"):
        objects = manifests.build(f"{BASE}/{name}")
        for thing in objects:
            manifests.check(thing)
        # A server starts as many executors as it may use CPUs: without a limit, as the machine has.
        for thing in objects:
            if thing["kind"] == "StatefulSet":
                server, = manifests.pod_of(thing)["containers"]
                assert "cpu" in server["resources"]["limits"], server["resources"]
        print(f"ok: {name}, {len(objects)} objects", flush=True)
    # The check can fail.
    broken = manifests.build(f"{BASE}/base")
    of_kind(broken, "StatefulSet", "dslide-server")["spec"]["replica"] = 2
    try:
        for thing in broken:
            manifests.check(thing)
    except ValueError as error:
        assert "replica: " in str(error), error
    else:
        raise SystemExit("kubernetes_test: a wrong field was not noticed")


def main():
    build = os.path.abspath(sys.argv[1])
    check_manifests()
    image = run(f"{ROOT}/tools/package/image", build, cwd=ROOT).strip().splitlines()
    print("ok:", *image[-2:], flush=True)
    objects = manifests.build(f"{BASE}/overlays/small")
    job = of_kind(objects, "Job", SCHEDULER)
    server = of_kind(objects, "StatefulSet", "dslide-server")
    worker = of_kind(objects, "Deployment", "dslide-worker")
    servers = [f"dslide-server-{i}" for i in range(server["spec"]["replicas"])]
    workers = ["dslide-worker-a", "dslide-worker-b"]
    pods = [SCHEDULER, *servers, *workers]
    with tempfile.TemporaryDirectory(prefix="dslide-kubernetes-") as directory, Pods(pods) as network:
        os.chmod(directory, 0o755)
        run(f"{build}/bin/dslide", "key", "init", f"{directory}/run", "--scheduler",
            f"tcp://{SCHEDULER}:7700")
        joins = {role: run(f"{build}/bin/dslide", "key", "join", f"{directory}/run", "--name",
                           role).strip() for role in ("server", "worker")}
        volumes = {}
        for pod in (SCHEDULER, *servers):
            volumes[pod] = f"{directory}/data-{pod}"
            os.mkdir(volumes[pod])
            os.chown(volumes[pod], 10001, 10001)
        for name in ("train", "test"):
            run("sh", "-c", f"zstd -dc {DATA}/{name}.jsonl.zst | head -n {SAMPLES} | "
                f"zstd -qo {volumes[SCHEDULER]}/{name}.jsonl.zst")
        config = f"{directory}/config"
        os.mkdir(config)
        for name, text in of_kind(objects, "ConfigMap", "dslide-config")["data"].items():
            with open(f"{config}/{name}", "w", encoding="utf-8") as file:
                file.write(text)
        keys = f"{directory}/keys"
        shutil.copytree(f"{directory}/run/keys", keys)
        for path in (config, keys):
            run("chmod", "-R", "a+rX", path)
        with open(f"{directory}/hosts", "w", encoding="utf-8") as file:
            file.write("127.0.0.1 localhost\n" + "".join(
                f"{network.address(pod)} {pod}\n" for pod in pods))

        containers = []

        def start(pod, thing, container, mounts):
            one = Container(network, pod, thing, container, mounts, {"dslide-join": joins}, directory)
            containers.append(one)
            return one

        def failed(what):
            raise SystemExit(f"kubernetes_test: {what}\n" + "\n".join(
                f"--- {one.log}\n{one.text()[-3000:]}" for one in containers))

        try:
            mounts = {"config": config, "keys": keys, "data": volumes[SCHEDULER]}
            pod = manifests.pod_of(job)
            for init in pod["initContainers"]:
                if start(SCHEDULER, job, init, mounts).process.wait() != 0:
                    failed("an init container failed")
            scheduler = start(SCHEDULER, job, pod["containers"][0], mounts)
            for name in servers:
                start(name, server, manifests.pod_of(server)["containers"][0],
                      {"data": volumes[name]})
            for name in workers:
                start(name, worker, manifests.pod_of(worker)["containers"][0], {})
            end = time.monotonic() + 240
            while scheduler.process.poll() is None:
                if time.monotonic() > end:
                    failed("the run does not end")
                time.sleep(0.2)
            if scheduler.process.returncode != 0:
                failed(f"the scheduler ended with {scheduler.process.returncode}")
            with open(f"{volumes[SCHEDULER]}/run/summary.json", encoding="utf-8") as file:
                summary = json.load(file)
            print(f"ok: trained to the end, {summary.get('p_at_1', summary.get('best_p_at_1'))}")
            print(scheduler.text()[-700:])
        finally:
            for one in containers:
                one.stop()


if __name__ == "__main__":
    main()
