#!/usr/bin/env python3
"""dslide.Classifier: what it learns, what it takes and gives back, and what of it is kept."""
import json
import os
import pathlib
import pickle
import pty
import subprocess
import sys
import tempfile
import threading
import types
import unittest
from unittest import mock

import numpy as np
import scipy.sparse
from samples import COLOURS, SAME, SMALL, THINGS, blobs, tagged, texts
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import NearestCentroid

from dslide import Classifier
from dslide._executables import find_executable
from dslide._programs import setting


class Learning(unittest.TestCase):
    def test_it_is_about_as_accurate_as_others_on_many_classes(self):
        X, y = blobs(3000, 30, 20, seed=1)
        train, test = slice(0, 2000), slice(2000, None)
        own = Classifier(**{**SMALL, "hidden": 128, "epochs": 20}).fit(X[train], y[train])
        score = own.score(X[test], y[test])
        others = [other.fit(X[train], y[train]).score(X[test], y[test])
                  for other in (NearestCentroid(), LogisticRegression(max_iter=1000))]
        self.assertGreater(min(others), 0.6)
        self.assertGreater(score, max(others) - 0.06, others)

    def test_it_learns_several_labels_a_sample(self):
        X, y = tagged(1500, 40, seed=2)
        test_X, test_y = tagged(300, 40, seed=3)
        model = Classifier(**{**SMALL, "hidden": 128, "epochs": 15}).fit(X, y)
        self.assertGreater(model.score(test_X, test_y), 0.95)
        predicted = model.predict(test_X)
        right = sum(len(set(a) & set(b)) for a, b in zip(predicted, test_y))
        self.assertGreater(right / sum(map(len, test_y)), 0.9)
        self.assertGreater(right / sum(map(len, predicted)), 0.9)


    def test_it_learns_with_several_hidden_layers(self):
        X, y = tagged(1500, 40, seed=2)
        test_X, test_y = tagged(300, 40, seed=3)
        model = Classifier(**{**SMALL, "hidden": (64, 48, 32), "epochs": 15}).fit(X, y)
        self.assertGreater(model.score(test_X, test_y), 0.9)


class Forms(unittest.TestCase):
    """What goes in, and what comes out."""

    @classmethod
    def setUpClass(cls):
        cls.X, cls.y = blobs(300, 4, 6, seed=4, spread=0.3)
        cls.X[cls.X < -1] = 0
        cls.model = Classifier(**SMALL).fit(cls.X, cls.y)

    def test_dense_sparse_and_lists_are_the_same(self):
        expected = self.model.predict_proba(self.X)
        for form in (scipy.sparse.csr_matrix, scipy.sparse.csc_matrix, scipy.sparse.coo_matrix,
                     np.asfortranarray, np.ndarray.tolist):
            np.testing.assert_array_equal(self.model.predict_proba(form(self.X)), expected)
        np.testing.assert_array_equal(
            Classifier(**SAME).fit(self.X, self.y).predict_proba(self.X),
            Classifier(**SAME).fit(scipy.sparse.csr_matrix(self.X), self.y).predict_proba(self.X))

    def test_repeated_entries_of_a_sparse_matrix_add_up(self):
        data, indices, indptr = [1.0, 2.0, 4.0], [3, 3, 0], [0, 3]
        X = scipy.sparse.csr_matrix((data, indices, indptr), shape=(1, 6))
        np.testing.assert_array_equal(self.model.predict_proba(X),
                                      self.model.predict_proba(X.toarray()))
        self.assertEqual(X.nnz, 3)  # the caller's matrix stays as it was

    def test_labels_keep_their_type(self):
        for labels in (np.array(["Äpfel", "b c", "c", "d"]), np.array([7, 3, -1, 2**40]),
                       np.array([0.0, 1.0, 5.0, 2.0]), np.array([True, False, True, False])):
            y = labels[self.y]
            model = Classifier(**SMALL).fit(self.X, y)
            np.testing.assert_array_equal(model.classes_, np.unique(labels))
            self.assertEqual(model.classes_.dtype, labels.dtype)
            self.assertEqual(model.predict(self.X).dtype, labels.dtype)
            self.assertGreater(model.score(self.X, y), 0.97)

    def test_results_agree_with_each_other(self):
        model, X = self.model, self.X
        proba = model.predict_proba(X)
        self.assertEqual(proba.shape, (300, 4))
        np.testing.assert_allclose(proba.sum(axis=1), 1, rtol=1e-5)
        logits = model.decision_function(X).astype(np.float64)
        exponentials = np.exp(logits - logits.max(axis=1, keepdims=True))
        np.testing.assert_allclose(
            proba, exponentials / exponentials.sum(axis=1, keepdims=True), rtol=1e-4)
        np.testing.assert_array_equal(model.predict(X), proba.argmax(axis=1))
        for search in ("auto", "exact", "scan", "index"):
            labels, probabilities = model.top_k(X, 4, search=search)
            np.testing.assert_array_equal(labels[:, 0], model.predict(X))
            np.testing.assert_allclose(probabilities, -np.sort(-proba, axis=1), rtol=0.1, atol=0.01)
        np.testing.assert_array_equal(model.predict(X, k=2), model.top_k(X, 2)[0])
        self.assertEqual(model.score(X, self.y), np.mean(model.predict(X) == self.y))
        two = Classifier(**SMALL).fit(X, self.y % 2)
        np.testing.assert_array_equal(two.decision_function(X) > 0, two.predict(X) == 1)

    def test_rare_labels_may_be_preferred(self):
        random = np.random.default_rng(1)
        y = np.minimum(random.geometric(0.2, 1500), 15)
        X = np.eye(15)[y - 1] + random.normal(0, 0.7, (1500, 15))
        model = Classifier(**SMALL).fit(X, y)
        counts = np.bincount(y, minlength=16)
        usual, rare = (counts[model.top_k(X, 1, rare=share)[0]].mean() for share in (0, 1))
        self.assertLess(rare, usual)
        again = pickle.loads(pickle.dumps(model))
        self.assertEqual(counts[again.top_k(X, 1, rare=1)[0]].mean(), rare)
        self.assertEqual(counts[model.top_k(X, 1)[0]].mean(), usual)
        for wrong in (-0.1, 1.5, float("nan")):
            with self.assertRaisesRegex(ValueError, "from 0 to 1"):
                model.top_k(X, 1, rare=wrong)

    def test_a_multi_label_prediction_has_the_form_of_y(self):
        X, y = tagged(600, 20, seed=5)
        matrix = np.zeros((600, 22), int)  # two columns are empty
        for i, labels in enumerate(y):
            matrix[i, labels] = 1
        lists = Classifier(**SMALL).fit(X, y)
        dense = Classifier(**SMALL).fit(X, matrix)
        sparse = Classifier(**SMALL).fit(X, scipy.sparse.csr_matrix(matrix))
        self.assertEqual(lists.classes_.tolist(), list(range(20)))
        self.assertEqual(dense.classes_.tolist(), list(range(22)))
        predicted = dense.predict(X)
        self.assertIsInstance(predicted, np.ndarray)
        self.assertEqual(predicted.shape, (600, 22))
        self.assertEqual(set(np.unique(predicted)), {0, 1})
        self.assertIsInstance(sparse.predict(X), scipy.sparse.csr_matrix)
        self.assertEqual(sparse.predict(X).shape, (600, 22))
        self.assertIsInstance(lists.predict(X)[0], list)
        for row, labels in zip(predicted, dense.top_k(X, 1)[0]):
            self.assertEqual(row[labels[0]], 1)
        self.assertEqual(dense.score(X, matrix), dense.score(X, y))
        names = [[f"label {label}" for label in labels] for labels in y]
        named = Classifier(**SMALL).fit(X, names)
        self.assertTrue(all(isinstance(label, str) for label in named.predict(X)[0]))
        self.assertGreater(named.score(X, names), 0.9)

    def test_the_sigmoid_loss_has_a_threshold_of_a_half(self):
        X, y = tagged(600, 20, seed=6)
        settings = {**SMALL["settings"], "model.loss": "sigmoid"}
        model = Classifier(**{**SMALL, "epochs": 20, "settings": settings}).fit(X, y)
        proba = model.predict_proba(X)
        for labels, row in zip(model.predict(X), proba):
            self.assertEqual(sorted(labels), np.flatnonzero(row >= 0.5).tolist())

    def test_many_threads_may_predict_at_once(self):
        expected = self.model.predict_proba(self.X)
        wrong = []

        def predict():
            for _ in range(20):
                if (self.model.predict_proba(self.X) != expected).any():
                    wrong.append(True)

        threads = [threading.Thread(target=predict) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])


class Weights(unittest.TestCase):
    """sample_weight."""

    def test_a_weight_is_a_sample_several_times(self):
        X, y = blobs(300, 4, 6, seed=11)
        flat = np.repeat(X[:1], 300, axis=0)  # nothing to tell samples apart
        which = np.arange(300) % 3 == 0  # a third says 1, two thirds 0
        for form in (np.asarray, scipy.sparse.csr_matrix):
            plain = Classifier(**SAME).fit(form(flat), which.astype(int))
            heavy = Classifier(**SAME).fit(form(flat), which.astype(int),
                                           sample_weight=np.where(which, 8.0, 1.0))
            none = Classifier(**SAME).fit(form(flat), which.astype(int),
                                          sample_weight=np.where(which, 1.0, 0.0))
            self.assertEqual(plain.predict(form(flat))[0], 0)
            self.assertEqual(heavy.predict(form(flat))[0], 1)
            self.assertEqual(none.predict(form(flat))[0], 1)
        ones = Classifier(**SAME).fit(X, y, sample_weight=np.ones(300))
        np.testing.assert_array_equal(ones.predict_proba(X),
                                      Classifier(**SAME).fit(X, y).predict_proba(X))

    def test_texts_have_weights_too(self):
        X = ["It is a boat"] * 300
        y = [["seldom"] if i % 3 == 0 else ["often"] for i in range(300)]
        settings = {**SAME["settings"], "text.max_share": 1}
        model = Classifier(**{**SAME, "settings": settings})
        self.assertEqual(model.fit(X, y).predict(X[:1], k=1)[0, 0], "often")
        weights = [8.0 if labels == ["seldom"] else 1.0 for labels in y]
        self.assertEqual(model.fit(X, y, sample_weight=weights).predict(X[:1], k=1)[0, 0],
                         "seldom")

    def test_wrong_weights_are_refused(self):
        X, y = blobs(20, 2, 3, seed=12)
        for wrong, why in (([1.0] * 19 + [-1.0], "sample 19: the weight is -1, which is not"),
                           ([np.nan] + [1.0] * 19, "sample 0: the weight is nan"),
                           ([1e7] * 20, r"the weight is 1e\+07, .* from 0 to 1000"),
                           ([1.0] * 19, r"sample_weight.shape == \(19,\), expected \(20,\)"),
                           (np.ones((20, 2)), "must be 1D array or scalar")):
            with self.assertRaisesRegex(ValueError, why):
                Classifier(**SMALL).fit(X, y, sample_weight=wrong)


class Partial(unittest.TestCase):
    """partial_fit."""

    def test_it_goes_on_with_new_labels_and_features(self):
        X, y = blobs(1200, 8, 10, seed=13, spread=0.3)
        early = y < 5
        wide = np.hstack([X, np.zeros((1200, 2))])
        wide[y == 7, 10] = 3  # features that only the later samples have
        model = Classifier(**SMALL)
        names = np.array(["d", "b", "h", "f", "g", "a", "e", "c"])[y]
        self.assertIs(model.partial_fit(X[early], names[early], epochs=5), model)
        self.assertEqual(model.classes_.tolist(), ["b", "d", "f", "g", "h"])
        self.assertGreater(model.score(X[early], names[early]), 0.95)
        before = model.score(X[early], names[early])
        model.partial_fit(wide, names, epochs=5)
        self.assertEqual(model.classes_.tolist(), list("abcdefgh"))
        self.assertEqual(model.n_features_in_, 12)
        self.assertGreater(model.score(wide, names), 0.95)
        self.assertGreater(model.score(wide[early], names[early]), before - 0.05)
        proba = model.predict_proba(wide)
        np.testing.assert_array_equal(model.classes_[proba.argmax(axis=1)], model.predict(wide))
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "model.dslide")
            model.save(path)
            loaded = Classifier.load(path)
        np.testing.assert_array_equal(loaded.predict(wide), model.predict(wide))
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict_proba(wide), proba)

    def test_one_call_is_one_epoch_of_a_fit(self):
        X, y = blobs(300, 12, 6, seed=14)
        one = Classifier(**{**SAME, "epochs": 1}).fit(X, y)
        part = Classifier(**SAME).partial_fit(X, y)
        np.testing.assert_array_equal(part.predict_proba(X), one.predict_proba(X))
        before = part.score(X, y)
        for model in (one, part):
            for _ in range(3):
                model.partial_fit(X, y)
            self.assertGreater(model.score(X, y), before)

    def test_samples_of_several_calls_are_learned(self):
        X, y = texts(600, 15)
        settings = {**SMALL["settings"], "text.max_share": 0.9}
        model = Classifier(**{**SMALL, "settings": settings})
        for begin in range(0, 600, 200):
            model.partial_fit(X[begin:begin + 200], y[begin:begin + 200], epochs=4)
        self.assertGreater(model.score(X, y), 0.95)
        model.partial_fit(["a purple boat"] * 40 + X[:200], [["purple", "boat"]] * 40 + y[:200],
                          epochs=4)
        self.assertIn("purple", model.classes_)
        self.assertIn("purple", model.predict(["a purple boat"], k=2)[0])

    def test_classes_may_be_named_beforehand(self):
        X, y = blobs(200, 3, 5, seed=16, spread=0.3)
        model = Classifier(**SMALL).partial_fit(X, y, classes=[0, 1, 2, 9], epochs=3)
        self.assertEqual(model.classes_.tolist(), [0, 1, 2, 9])
        model.partial_fit(X, np.where(y == 2, 9, y), epochs=3)
        self.assertEqual(model.classes_.tolist(), [0, 1, 2, 9])
        self.assertGreater(np.mean(model.predict(X[y == 2]) == 9), 0.9)
        with self.assertRaisesRegex(ValueError, r"y has labels that classes lacks: \[2\]"):
            Classifier(**SMALL).partial_fit(X, y, classes=[0, 1])

    def test_weights_count(self):
        X = np.ones((300, 2))
        y = (np.arange(300) % 3 == 0).astype(int)
        model = Classifier(**SAME).partial_fit(X, y, sample_weight=np.where(y == 1, 8.0, 1.0))
        self.assertEqual(model.predict(X[:1])[0], 1)

    def test_what_cannot_go_on_is_refused(self):
        X, y = blobs(100, 3, 5, seed=17)
        model = Classifier(**SAME).partial_fit(X, y)
        for what, why in (((X[:, :4], y), "X has 4 features, but Classifier is expecting 5"),
                          ((["a", "b"], [0, 1]), "trained on numbers, but X has texts"),
                          ((X, y.astype(str)), "labels were int, but these are str"),
                          ((X, [[label] for label in y.tolist()]), "y has another form")):
            with self.assertRaisesRegex(ValueError, why):
                model.partial_fit(*what)
        for epochs in (0, 1.5, True):
            with self.assertRaisesRegex(ValueError, "epochs must be a whole number from 1"):
                model.partial_fit(X, y, epochs=epochs)
        expected = model.predict_proba(X)
        with self.assertRaisesRegex(ValueError, "model.hidden is .* cannot change"):
            model.set_params(hidden=16).partial_fit(X, y)
        np.testing.assert_array_equal(model.predict_proba(X), expected)
        model.set_params(hidden=32).partial_fit(X, y)  # still able to go on
        with self.assertRaisesRegex(ValueError, "has no run to go on from: this model was loaded, or"):
            pickle.loads(pickle.dumps(model)).partial_fit(X, y)

    def test_runs_stay_where_they_are_asked_to(self):
        X, y = blobs(100, 3, 5, seed=18)
        with tempfile.TemporaryDirectory() as directory:
            run = os.path.join(directory, "run")
            model = Classifier(**{**SAME, "run_dir": run}).fit(X, y)
            model = pickle.loads(pickle.dumps(model)).partial_fit(X, y)
            model.partial_fit(X, y)
            self.assertLess({"partial-1", "partial-2", "summary.json"}, set(os.listdir(run)))
            other = os.path.join(directory, "other")
            Classifier(**{**SAME, "run_dir": other}).partial_fit(X, y).partial_fit(X, y)
            self.assertEqual(sorted(os.listdir(other)), ["partial-1", "partial-2"])

    def test_no_run_stays_behind_otherwise(self):
        with tempfile.TemporaryDirectory() as directory:
            code = ("import tempfile; from samples import *; from dslide import Classifier; "
                    "import os; X, y = blobs(100, 3, 5, seed=19); m = Classifier(**SAME); "
                    "m.partial_fit(X, y).partial_fit(X, y); "
                    "print(len(os.listdir(tempfile.gettempdir()))); del m; "
                    "print(os.listdir(tempfile.gettempdir()))")
            result = subprocess.run(
                [sys.executable, "-c", code], env={**os.environ, "TMPDIR": directory},
                cwd=os.path.dirname(os.path.abspath(__file__)), capture_output=True, text=True,
                check=False)
            self.assertEqual((result.stdout, result.stderr), ("1\n[]\n", ""))


class Text(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.X, cls.y = texts(600, seed=7)
        cls.model = Classifier(**SMALL).fit(cls.X, cls.y)

    def test_text_goes_in_and_names_come_out(self):
        self.assertEqual(self.model.classes_.tolist(), sorted(COLOURS + THINGS))
        X, y = texts(100, seed=8)
        self.assertEqual([set(labels) for labels in self.model.predict(X, k=2).tolist()],
                         [set(labels) for labels in y])
        self.assertEqual(self.model.score(X, y), 1.0)
        self.assertEqual(self.model.predict_proba(X).shape, (100, 8))
        best = self.model.classes_[self.model.predict_proba(X).argmax(axis=1)]
        np.testing.assert_array_equal(best, self.model.top_k(X, 1)[0][:, 0])

    def test_titles_dicts_and_arrays_are_texts(self):
        pairs = [(text, "more of it") for text in self.X]
        dicts = [{"title": title, "text": text} for title, text in pairs]
        lines = [f"{title}\n{text}" for title, text in pairs]
        model = Classifier(**SMALL).fit(pairs, [labels[0] for labels in self.y])
        self.assertEqual(model.score(dicts, [labels[0] for labels in self.y]), 1.0)
        np.testing.assert_array_equal(model.predict_proba(pairs), model.predict_proba(dicts))
        # As everywhere in D-SLIDE, a text's first line is its title.
        np.testing.assert_array_equal(model.predict_proba(pairs), model.predict_proba(lines))
        np.testing.assert_array_equal(model.predict_proba(np.array(lines)),
                                      model.predict_proba(lines))
        self.assertEqual(model.predict_proba([""]).shape, (1, 4))

    def test_labels_of_texts_may_be_numbers(self):
        y = np.array([COLOURS.index(labels[0]) * 10 for labels in self.y])
        model = Classifier(**SMALL).fit(self.X, y)
        self.assertEqual(model.classes_.tolist(), [0, 10, 20, 30])
        self.assertEqual(model.score(self.X, y), 1.0)

    def test_a_column_that_no_text_has_has_no_probability(self):
        matrix = np.zeros((600, 9), int)
        names = self.model.classes_.tolist()
        for i, labels in enumerate(self.y):
            matrix[i, [names.index(label) for label in labels]] = 1
        model = Classifier(**SMALL).fit(self.X, matrix)
        proba = model.predict_proba(self.X)
        self.assertEqual(proba.shape, (600, 9))
        self.assertTrue((proba[:, 8] == 0).all())
        self.assertEqual(model.predict(self.X).shape, (600, 9))
        self.assertEqual(model.score(self.X, matrix), 1.0)


class Streams(unittest.TestCase):
    def test_labels_that_a_stream_has_forgotten_are_never_predicted(self):
        lines = []
        for i in range(6000):  # things 0 to 5, then 4 to 9
            thing = i % 6 + (4 if i >= 2000 else 0)
            lines.append(json.dumps({"text": f"about thing{thing}", "labels": [f"label{thing}"]}))
        settings = {"train.open_vocabulary": True, "train.segment_samples": 512,
                    "train.expire_segments": 3, "train.batch": 16, "model.hidden": 16,
                    "cluster.executors": 1, "text.max_share": 1}
        with tempfile.TemporaryDirectory() as directory:
            trained, path = (os.path.join(directory, name) for name in ("run", "model.dslide"))
            arguments = ["train", "--run-dir", trained, "--servers=1", "--workers=1"]
            for key, value in {**settings, "train.data": "-"}.items():
                arguments += ["--set", setting(key, value)]
            for command, text in ((arguments, "\n".join(lines) + "\n"),
                                  (["export", trained, "--to", path], "")):
                done = subprocess.run([find_executable("dslide"), *command], input=text, text=True,
                                      capture_output=True, timeout=300, check=False)
                self.assertEqual(done.returncode, 0, done.stderr)
            model = Classifier.load(path)
        known = {f"label{thing}" for thing in range(4, 10)}
        X = [f"about thing{thing}" for thing in range(4, 10)]
        for search in ("exact", "scan", "index"):
            labels, probabilities = model.top_k(X, len(known), search=search)
            for row in labels:
                self.assertEqual(set(row), known)
            np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=0.1)
        expected = [f"label{thing}" for thing in range(4, 10)]
        self.assertEqual(model.predict(X, k=1)[:, 0].tolist(), expected)
        self.assertEqual([row[0] for row in model.predict(X)], expected)
        proba = model.predict_proba(X)
        np.testing.assert_allclose(proba.sum(axis=1), 1, rtol=1e-3)
        live = np.isin(model.classes_, list(known))
        self.assertEqual(live.sum(), len(known))
        self.assertGreater((~live).sum(), 0)
        self.assertTrue((proba[:, ~live] == 0).all())
        self.assertTrue(np.isneginf(model.decision_function(X)[:, ~live]).all())
        self.assertTrue(np.isfinite(model.decision_function(X)[:, live]).all())
        with self.assertRaisesRegex(ValueError, "k must be 1 to 6, the model's labels but for "
                                    r"\d+ that its stream has forgotten, not 7"):
            model.top_k(X, 7)


class Keeping(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.TemporaryDirectory()
        cls.X, cls.y = texts(300, seed=9)
        cls.model = Classifier(**SMALL).fit(cls.X, cls.y)

    @classmethod
    def tearDownClass(cls):
        cls.directory.cleanup()

    def path(self, name):
        return os.path.join(self.directory.name, name)

    def assert_same(self, other, model, X):
        np.testing.assert_array_equal(other.predict_proba(X), model.predict_proba(X))
        np.testing.assert_array_equal(other.classes_, model.classes_)
        self.assertEqual(other.classes_.dtype, model.classes_.dtype)
        self.assertEqual(other.get_params(), model.get_params())
        self.assertEqual(repr(other.predict(X)), repr(model.predict(X)))

    def test_a_model_is_saved_and_loaded(self):
        self.model.save(self.path("text.dslide"))
        self.assert_same(Classifier.load(self.path("text.dslide")), self.model, self.X)
        X, y = blobs(200, 3, 5, seed=10)
        for labels in (np.array(["x", "y", "z"]), np.array([1.0, 2.0, 4.0])):
            model = Classifier(**SMALL).fit(X, labels[y])
            model.save(self.path("numbers.dslide"))
            loaded = Classifier.load(self.path("numbers.dslide"))
            self.assert_same(loaded, model, X)
            self.assertEqual(loaded.n_features_in_, 5)
            loaded.save(self.path("numbers.dslide"))  # over the file that is mapped
            self.assert_same(loaded, model, X)
        self.assertEqual([name for name in os.listdir(self.directory.name) if "tmp" in name], [])

    def test_numbers_of_numpy_and_paths_are_saved_wherever_they_are(self):
        X, y = blobs(60, 2, 3, seed=14)
        settings = {**SMALL["settings"], "train.warmup_batches": np.int64(0),
                    "train.dropout_hidden": np.float64(0.25)}
        model = Classifier(hidden=(np.int64(16), np.int32(8)), batch=np.int64(16), epochs=1,
                           settings=settings, run_dir=pathlib.Path(self.path("numpy")),
                           verbose=False).fit(X, y)
        model.save(self.path("numpy.dslide"))
        loaded = Classifier.load(self.path("numpy.dslide"))
        self.assertEqual(loaded.get_params(), {**model.get_params(), "hidden": [16, 8],
                                               "run_dir": self.path("numpy")})
        np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))

    def test_a_model_is_pickled(self):
        self.assert_same(pickle.loads(pickle.dumps(self.model)), self.model, self.X)
        fresh = pickle.loads(pickle.dumps(Classifier(hidden=5)))
        self.assertEqual(fresh.get_params(), Classifier(hidden=5).get_params())

    def test_the_run_stays_where_it_is_asked_to(self):
        run = self.path("run")
        model = Classifier(**{**SMALL, "run_dir": run}).fit(self.X, self.y)
        self.assertTrue(os.path.exists(os.path.join(run, "summary.json")))
        loaded = Classifier.load(os.path.join(run, "model.dslide"))
        self.assertEqual(sorted(loaded.classes_), sorted(model.classes_))
        self.assertEqual(loaded.predict(self.X), model.predict(self.X))

    def test_nothing_stays_otherwise(self):
        with tempfile.TemporaryDirectory() as directory:
            code = ("import tempfile; from samples import *; from dslide import Classifier; "
                    "X, y = texts(300, 1); Classifier(**SMALL).fit(X, y).predict(X); "
                    "import os; print(os.listdir(tempfile.gettempdir()))")
            result = subprocess.run(
                [sys.executable, "-c", code], env={**os.environ, "TMPDIR": directory},
                cwd=os.path.dirname(os.path.abspath(__file__)), capture_output=True, text=True,
                check=False)
            self.assertEqual((result.stdout, result.stderr), ("[]\n", ""))

    def test_progress_is_shown_if_it_is_asked_for(self):
        code = ("import sys; from samples import *; from dslide import Classifier; "
                "X, y = texts(300, 1); "
                "Classifier(**{**SMALL, 'verbose': sys.argv[1] == 'yes'}).fit(X, y)")
        for verbose in ("yes", "no"):
            result = subprocess.run([sys.executable, "-c", code, verbose], capture_output=True,
                                    cwd=os.path.dirname(os.path.abspath(__file__)), text=True,
                                    check=True)
            self.assertEqual("worker-1 joined" in result.stdout, verbose == "yes")
            self.assertEqual(result.stderr, "")

    def test_a_terminal_shows_the_programs_own_line(self):
        code = ("from samples import *; from dslide import Classifier; X, y = texts(300, 1); "
                "Classifier(**{**SMALL, 'verbose': True}).fit(X, y)")
        ours, theirs = pty.openpty()
        with subprocess.Popen([sys.executable, "-c", code], stdin=theirs, stdout=theirs,
                              cwd=os.path.dirname(os.path.abspath(__file__))) as process:
            os.close(theirs)
            shown = b""
            try:
                while block := os.read(ours, 4096):
                    shown += block
            except OSError:  # the other end is closed
                pass
        os.close(ours)
        self.assertEqual(process.returncode, 0)
        self.assertIn(b"\r\x1b[K", shown)  # which the program writes to terminals only

    def test_a_notebook_shows_a_line_that_is_replaced(self):
        shown = []
        ipython, display = types.ModuleType("IPython"), types.ModuleType("IPython.display")
        ipython.get_ipython = lambda: types.SimpleNamespace(kernel=object())
        ipython.display = display
        display.display = lambda data, raw, display_id: types.SimpleNamespace(
            update=lambda data, raw: shown.append(data["text/plain"]))
        with mock.patch.dict(sys.modules, {"IPython": ipython, "IPython.display": display}):
            Classifier(**{**SMALL, "verbose": True}).fit(self.X, self.y)
        self.assertIn("worker-1 joined", shown)

    def test_scikit_learn_is_not_needed(self):
        code = ("import sys; sys.modules['sklearn'] = None; from dslide import Classifier; "
                "from samples import *; X, y = texts(300, 1); model = Classifier(**SMALL); "
                "assert model.set_params(hidden=16).get_params()['hidden'] == 16; "
                "print(model); model.fit(X, y); assert model.score(X, y) == 1\n"
                "try: model.set_params(hiden=1)\n"
                "except ValueError as error: print(error)")
        result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                                cwd=os.path.dirname(os.path.abspath(__file__)), check=False)
        self.assertEqual(result.stderr, "")
        self.assertTrue(result.stdout.startswith("Classifier(batch=16, epochs=10, hidden=16, "))
        self.assertIn("Invalid parameter 'hiden'", result.stdout)


if __name__ == "__main__":
    unittest.main()
