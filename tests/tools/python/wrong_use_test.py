#!/usr/bin/env python3
"""dslide.Classifier: wrong uses get one clear line, and leave nothing behind."""
import os
import pickle
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

import numpy as np
import scipy.sparse
from samples import SMALL, blobs, texts

from dslide import Classifier, DslideInputError


class WrongUse(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.X, cls.y = blobs(200, 4, 6, seed=1, spread=0.3)
        cls.model = Classifier(**SMALL).fit(cls.X, cls.y)

    def refuses(self, message, call, *arguments, **named):
        with self.assertRaisesRegex(ValueError, message) as context:
            call(*arguments, **named)
        self.assertNotIn("\n", str(context.exception))

    def fit_refuses(self, message, X, y, **parameters):
        self.refuses(message, Classifier(**{**SMALL, **parameters}).fit, X, y)

    def test_x_and_y_of_different_lengths(self):
        self.fit_refuses("different lengths.*: 200 and 199", self.X, self.y[:-1])
        self.refuses("different lengths: 10 and 200", self.model.score, self.X[:10], self.y)

    def test_values_that_are_no_numbers(self):
        for value, message in ((np.nan, "contains NaN"), (np.inf, "contains infinity"),
                               (1e300, "too large for dtype..float32"),
                               (2e9, "the value 2e.09, at most 1e.09 is taken; scale the data")):
            X = self.X.copy()
            X[3, 2] = value
            self.fit_refuses(message, X, self.y)
            self.fit_refuses(message, scipy.sparse.csr_matrix(X), self.y)
            self.refuses(message, self.model.predict, X)
        self.refuses("the value -3e.38, at most 1e.09 is taken", self.model.predict,
                     [[0] * 6, [-3e38] * 6])
        self.fit_refuses("Complex data not supported", self.X * 1j, self.y)

    def test_x_of_another_shape(self):
        self.refuses("X has 5 features, but Classifier is expecting 6 features",
                     self.model.predict, self.X[:, :5])
        self.refuses("Expected 2D array, got 1D array", self.model.predict, self.X[0])
        self.refuses("0 sample", self.model.predict, self.X[:0])
        self.fit_refuses("0 feature", self.X[:, :0], self.y)
        self.refuses("trained on numbers, but X has texts", self.model.predict, ["a text"])
        self.refuses("X is one sample", self.model.predict, "a text")

    def test_labels_that_are_none(self):
        for y, message in (
                ([0.5] * 200, "Unknown label type"), ([np.nan] * 200, "y contains NaN"),
                (None, "target y is None"), (np.zeros((200, 3)), "no sample has a label"),
                (np.full((200, 3), 2), "indicator matrix, of 0 and 1"),
                ([[]] * 200, "no sample has a label"), ([["a", 1]] * 200, "of one type.*int, str"),
                ([[float("nan")]] * 200, "y contains NaN"),
                ([[-1], [2**63]] * 100, "whole numbers of 64 bits"),
                ([-1, 2**63] * 100, "whole numbers of 64 bits"),
                (scipy.sparse.csr_matrix(([1], ([0], [2**31])), shape=(200, 2**31 + 1)),
                 "y has 2147483649 columns, at most 2147483647"),
                ([["a"]] * 199 + ["b"], "sample 199: the first sample has a list"),
                (np.zeros((200, 2, 2)), "y has 3 dimensions")):
            self.fit_refuses(message, self.X, y)
        X, _ = texts(200, seed=2)
        self.fit_refuses("has no control characters", X, ["a\nb", "c"] * 100)
        self.fit_refuses("is not empty", X, ["", "c"] * 100)

    def test_texts_that_are_none(self):
        y = ["a", "b"]
        self.fit_refuses("sample 1: is int", ["a text", 5], y)
        self.fit_refuses("a title, a text or both|a text, a title or both", [{"texts": "a"}] * 2, y)
        self.fit_refuses("sample 0: a title or text is int", [{"text": 3}] * 2, y)
        self.fit_refuses("sample 1: has a surrogate", ["a", "\ud800"], y)
        self.fit_refuses("sample 1: a dict has a text.*None", ["a", {"text": None}], y)

    def test_samples_without_labels_are_warned_of(self):
        some = [[int(label)] for label in self.y]
        with self.assertWarnsRegex(UserWarning, "1 of 200 samples have no label"):
            score = self.model.score(self.X, [[]] + some[1:])
        self.assertGreater(score, 0)
        self.refuses("no sample has a label", self.model.score, self.X, [[]] * 200)

    def test_parameters(self):
        with self.assertRaisesRegex(TypeError, "hiden"):
            Classifier(hiden=5)
        self.refuses("Invalid parameter 'hiden'", Classifier().set_params, hiden=5)
        for parameters, message in (
                ({"hidden": -1}, "model.hidden = -1: must be 1 to 8192"),
                ({"servers": 0}, "servers"),
                ({"epochs": "many"}, "train.epochs = many"),
                ({"settings": {"model.hiden": 5}}, "model.hiden"),
                ({"settings": {"model.hidden": 5}}, "settings has model.hidden, and so has"),
                ({"settings": {"train.data": "x"}}, "settings has train.data")):
            self.fit_refuses(message, self.X, self.y, **parameters)
        with self.assertRaises(DslideInputError) as context:
            Classifier(**{**SMALL, "hidden": -1}).fit(self.X, self.y)
        self.assertEqual(context.exception.exit_code, 2)
        again = pickle.loads(pickle.dumps(context.exception))
        self.assertEqual((str(again), again.exit_code), (str(context.exception), 2))

    def test_k_and_search(self):
        for k in (0, -1, 5, 1.5, "2", True):
            self.refuses("k must be 1 to 4", self.model.top_k, self.X, k)
            self.refuses("k must be 1 to 4", self.model.predict, self.X, k=k)
        self.refuses("search must be one of auto, exact", self.model.top_k, self.X, 1,
                     search="lsh")

    def test_too_many_classes_for_a_dense_result(self):
        with mock.patch("dslide.classifier._MOST_DENSE", 3):
            self.refuses("use top_k", self.model.predict_proba, self.X)
            self.refuses("use top_k", self.model.decision_function, self.X)

    def test_an_estimator_without_a_fit(self):
        for call in (lambda: Classifier().predict(self.X), lambda: Classifier().save("x"),
                     lambda: Classifier().score(self.X, self.y),
                     lambda: Classifier().predict_proba(self.X)):
            self.refuses("not fitted yet", call)

    def test_files_that_are_no_model(self):
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "model.dslide")
            self.refuses("cannot open: No such file", Classifier.load, path)
            with open(path, "w", encoding="utf-8") as file:
                file.write("something else")
            self.refuses("not a model file", Classifier.load, path)
            self.model.save(path)
            os.truncate(path, os.path.getsize(path) - 10)
            self.refuses("damaged", Classifier.load, path)
            self.model.save(path)
            with open(path, "r+b") as file:  # a byte of a large section, which load() does not read
                file.seek(64)
                byte = file.read(1)[0]
                file.seek(64)
                file.write(bytes([byte ^ 1]))
            damaged = Classifier.load(path)
            self.refuses("model.dslide: damaged .input.", damaged.predict, self.X)
            self.refuses("model.dslide: damaged .input.", damaged.save, path)
            for notes in ("no JSON", "5", '{"python": 5}', '{"python": {}}',
                          '{"python": {"params": {"new": 1}, "form": "one", "dtype": "<i8", '
                          '"classes": [0, 1, 2, 3]}}',
                          '{"python": {"params": {}, "form": "one", "dtype": "<i8", '
                          '"classes": [0]}}',
                          '{"python": {"params": {}, "form": "two", "dtype": "<i8", '
                          '"classes": [0, 1, 2, 3]}}'):
                self.model._model.save(path, notes)
                self.refuses("model.dslide: what Classifier.save.. noted", Classifier.load, path)
            with self.assertRaisesRegex(OSError, "nowhere.*No such file"):
                self.model.save(os.path.join(directory, "nowhere", "model.dslide"))
            self.assertEqual(os.listdir(directory), ["model.dslide"])

    def test_a_run_directory_that_has_a_run(self):
        with tempfile.TemporaryDirectory() as run:
            Classifier(**{**SMALL, "run_dir": run}).fit(self.X, self.y)
            before = os.stat(os.path.join(run, "data", "train.txt")).st_mtime_ns
            self.fit_refuses(run + ": is not empty", self.X, self.y, run_dir=run)
            self.assertEqual(os.stat(os.path.join(run, "data", "train.txt")).st_mtime_ns, before)

    def test_ctrl_c_stops_the_processes(self):
        code = ("from samples import *; from dslide import Classifier; X, y = texts(300, 1); "
                "Classifier(**{**SMALL, 'epochs': 10000, 'verbose': True}).fit(X, y)")
        with tempfile.TemporaryDirectory() as directory:
            with subprocess.Popen(
                    [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                    text=True, cwd=os.path.dirname(os.path.abspath(__file__)),
                    env={**os.environ, "TMPDIR": directory,
                         "DSLIDE_FAILPOINTS": "worker.before-report=delay:20"}) as process:
                for line in process.stdout:
                    if "worker-1 joined" in line:
                        process.send_signal(signal.SIGINT)
                        break
                _, errors = process.communicate()
            self.assertTrue(errors.rstrip().endswith("KeyboardInterrupt"), errors)
            self.assertEqual(os.listdir(directory), [])

    def test_executables_that_are_not_there(self):
        with tempfile.TemporaryDirectory() as directory:
            with mock.patch.dict(os.environ, {"DSLIDE_BIN": directory}):
                with self.assertRaisesRegex(FileNotFoundError, "has no executable dslide"):
                    Classifier(**SMALL).fit(self.X, self.y)

    def test_a_package_without_its_module(self):
        with tempfile.TemporaryDirectory() as directory:
            package = os.path.join(directory, "dslide")
            shutil.copytree(os.path.dirname(sys.modules["dslide"].__file__), package,
                            ignore=shutil.ignore_patterns("*.so", "__pycache__"))
            result = subprocess.run([sys.executable, "-B", "-c", "import dslide"],
                                    env={**os.environ, "PYTHONPATH": directory},
                                    capture_output=True, text=True, check=False)
        self.assertEqual(result.stderr.splitlines()[-1], (
            f"ModuleNotFoundError: {package}: the package's C++ half is not built for this "
            "Python; build the target dslide_python_module (tools/python/README.md), and use the "
            "Python that CMake found"))


if __name__ == "__main__":
    unittest.main()
