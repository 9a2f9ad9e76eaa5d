#!/usr/bin/env python3
"""dslide.Cluster: starts a cluster, joins one, watches it and ends it."""
import os
import signal
import socket
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

from samples import tagged

from dslide import Classifier, Cluster, DslideError, DslideInputError
from dslide._executables import find_executable
from dslide._labels import read_labels
from dslide._programs import stop
from dslide._samples import read_samples
from dslide.classifier import _write_data

# Workers wait after each batch, so that a run lasts as long as a test needs it.
SLOWLY = {"DSLIDE_FAILPOINTS": "worker.before-report=delay:20"}


def workers_of(cluster):
    return {member["name"] for member in cluster.status()["members"] if member["role"] == "worker"}


class Clusters(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.TemporaryDirectory()
        X, y = tagged(2000, 30, seed=1)
        cls.settings = {
            "train.data": _write_data(cls.directory.name, read_samples(X), read_labels(y), None),
            "model.hidden": 32, "train.batch": 16, "train.epochs": 3, "cluster.executors": 1}

    @classmethod
    def tearDownClass(cls):
        cls.directory.cleanup()

    def path(self, name):
        return os.path.join(self.directory.name, name)

    def slowly(self, **named):
        """A cluster whose training does not end by itself during a test."""
        os.environ.update(SLOWLY)
        try:
            return Cluster(settings={**self.settings, "train.epochs": 1000}, **named)
        finally:
            for name in SLOWLY:
                del os.environ[name]

    def test_a_cluster_trains_to_its_end(self):
        with Cluster(settings=self.settings, servers=2, workers=2,
                     run_dir=self.path("whole")) as cluster:
            summary = cluster.wait(timeout=120)
            self.assertGreater(len(summary), 5)
            self.assertEqual(cluster.wait(), summary)
            with self.assertRaises(DslideError):
                cluster.status()
        subprocess.run([find_executable("dslide"), "export", cluster.run_dir, "--to",
                        self.path("model.dslide")], check=True, capture_output=True)
        X, y = tagged(200, 30, seed=2)
        model = Classifier.load(self.path("model.dslide"))
        self.assertGreater(model.score(X, y), 0.9)

    def test_a_configuration_file_is_taken(self):
        with open(self.path("cluster.ini"), "w", encoding="utf-8") as file:
            file.write(f"[train]\ndata = {self.settings['train.data']}\nepochs = 1\n"
                       "[model]\nhidden = 16\n[cluster]\nexecutors = 1\n")
        with Cluster(self.path("cluster.ini"), settings={"train.epochs": 2}) as cluster:
            cluster.wait(timeout=120)
            with open(os.path.join(cluster.run_dir, "config.ini"), encoding="utf-8") as file:
                config = file.read()
        self.assertIn("hidden = 16\n", config)
        self.assertIn("epochs = 2\n", config)
        self.assertFalse(os.path.exists(cluster.run_dir))

    def test_workers_join_and_leave_and_a_stop_leaves_a_checkpoint(self):
        run = self.path("stopped")
        with self.slowly(run_dir=run, workers=1) as cluster:
            with self.assertRaises(TimeoutError):
                cluster.wait(timeout=0)
            self.wait_until(lambda: len(workers_of(cluster)) == 1)
            first = workers_of(cluster)
            with Cluster.join(cluster.address, workers=2) as joined:
                self.assertEqual(joined.address, cluster.address)
                self.wait_until(lambda: len(workers_of(joined)) == 3)
                self.assertLess(first, workers_of(cluster))
            self.wait_until(lambda: workers_of(cluster) == first)
            cluster.stop()
            with self.assertRaises(DslideError) as context:
                cluster.wait()
            self.assertEqual(context.exception.exit_code, 85)
        self.assertTrue(os.listdir(os.path.join(run, "checkpoint")))
        with Cluster(run_dir=run, resume=True, settings={"train.epochs": 1}) as cluster:
            self.assertGreater(len(cluster.wait(timeout=120)), 5)

    def test_joined_workers_end_with_the_run(self):
        with self.slowly(workers=1) as cluster:
            joined = Cluster.join(cluster.address)
            self.wait_until(lambda: len(workers_of(cluster)) == 2)
            cluster.stop()
            self.assertIsNone(joined.wait(timeout=60))

    def test_the_interpreters_end_is_the_clusters(self):
        code = ("import sys; sys.path.insert(0, '.'); from cluster_test import *; "
                "Clusters.setUpClass(); cluster = Clusters().slowly(); "
                "print(cluster._children[0].process.pid, cluster.run_dir)")
        result = subprocess.run([sys.executable, "-B", "-c", code], capture_output=True, text=True,
                                cwd=os.path.dirname(os.path.abspath(__file__)), check=False)
        self.assertEqual(result.stderr, "")
        pid, run = result.stdout.split()
        self.assertFalse(os.path.exists(f"/proc/{pid}"))
        self.assertFalse(os.path.exists(run))

    def test_the_processes_end_with_a_python_that_is_killed(self):
        begin = ("import sys; sys.path.insert(0, '.'); from cluster_test import *; "
                 "Clusters.setUpClass(); test = Clusters(); ")
        # From a thread that ends before the process does.
        cluster = (begin + "import threading; clusters = []; thread = threading.Thread(target="
                   "lambda: clusters.append(test.slowly())); thread.start(); thread.join(); "
                   "joined = Cluster.join(clusters[0].address); "
                   "print(joined._children[0].process.pid, clusters[0].run_dir, flush=True); "
                   "signal.pause()")
        fit = (begin + "import dslide.classifier as c; write = c._write_data\n"
               "def told(directory, *given): print('', directory, flush=True); "
               "return write(directory, *given)\n"
               "c._write_data = told; X, y = tagged(2000, 30, seed=1); "
               "Classifier(epochs=10000, batch=16).fit(X, y)")
        for code, event in ((cluster, None), (fit, "worker-1 joined")):
            for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGKILL):
                with self.subTest(event=event, signal=number), subprocess.Popen(
                        [sys.executable, "-B", "-c", code], stdout=subprocess.PIPE, text=True,
                        env={**os.environ, **SLOWLY, "TMPDIR": self.directory.name},
                        cwd=os.path.dirname(os.path.abspath(__file__))) as process:
                    pid, run = process.stdout.readline().rstrip("\n").split(" ")
                    while event and event not in process.stdout.readline():
                        pass
                    process.send_signal(number)
                    self.assertEqual(process.wait(), -number)
                    self.wait_until(lambda: not os.path.exists(run))
                    self.wait_until(lambda: not pid or not os.path.exists(f"/proc/{pid}"))

    def test_a_fork_does_not_end_its_parents_cluster(self):
        with self.slowly() as cluster:
            child = os.fork()
            if child == 0:
                cluster.stop()
                os._exit(0)
            self.assertEqual(os.waitpid(child, 0)[1], 0)
            self.assertTrue(os.path.exists(cluster.run_dir))
            self.assertIsNone(cluster._children[0].process.poll())

    def test_a_second_interrupt_ends_the_processes_at_once(self):
        code = ("import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
                "print(1, flush=True); signal.pause()")
        with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
            process.stdout.readline()
            wait = process.wait
            with mock.patch.object(process, "wait", side_effect=[KeyboardInterrupt, mock.DEFAULT],
                                   wraps=wait):
                with self.assertRaises(KeyboardInterrupt):
                    stop([process])
            self.assertEqual(process.returncode, -signal.SIGKILL)

    def test_what_cannot_start_is_an_error(self):
        for named, message in (({"settings": {"train.data": "nowhere.txt"}}, "nowhere.txt"),
                               ({"settings": {"model.hiden": 5}}, "model.hiden"),
                               ({"config": self.path("no.ini")}, "no.ini")):
            with self.assertRaisesRegex(DslideInputError, message):
                Cluster(**named)
        with self.assertRaisesRegex(ValueError, "resume needs run_dir"):
            Cluster(resume=True)
        with self.assertRaisesRegex(ValueError, "workers must be 1 or more"):
            Cluster.join("tcp://127.0.0.1:1", workers=0)
        with self.assertRaisesRegex(DslideInputError, "no address"):
            Cluster.join("no address")

    def test_a_join_where_nobody_is(self):
        with socket.socket() as nobody:
            nobody.bind(("127.0.0.1", 0))
            address = f"tcp://127.0.0.1:{nobody.getsockname()[1]}"
            with self.assertRaisesRegex(DslideError, f"no answer from {address} within"):
                Cluster.join(address)

    def wait_until(self, holds):
        """Asks until it holds; the test's own time limit ends it."""
        while not holds():
            pass


if __name__ == "__main__":
    unittest.main()
