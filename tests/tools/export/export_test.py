#!/usr/bin/env python3
"""dslide export: other programs read the files, and rank as dslide predict does.

    tests/tools/export/export_test.py DSLIDE [faiss] [torch]

faiss, torch: packages that are there, which read the files too.
"""
import json
import os
import struct
import subprocess
import sys
import tempfile
import unittest
import zipfile

import numpy as np

DSLIDE = ""
PACKAGES = set()
SAMPLES = 50
FEATURES, LABELS, HIDDEN, TOP = 90, 60, 32, 5


def dslide(*arguments, code=0):
    result = subprocess.run([DSLIDE, *arguments], capture_output=True, text=True, check=False)
    assert result.returncode == code, (arguments, result.returncode, result.stderr)
    return result.stdout if code == 0 else result.stderr


def write_numbers(path, samples, seed):
    """Dense noise beside the features that name the labels: no two logits are close."""
    random = np.random.default_rng(seed)
    rows = []
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"{samples} {FEATURES} {LABELS}\n")
        for _ in range(samples):
            x = np.zeros(FEATURES, np.float32)
            label = random.integers(LABELS)
            x[label] = 1
            x[LABELS:] = random.normal(size=FEATURES - LABELS).round(3)
            rows.append(x)
            entries = " ".join(f"{i}:{x[i]}" for i in np.flatnonzero(x))
            file.write(f"{label} {entries}\n")
    return np.array(rows)


def write_texts(path, samples):
    with open(path, "w", encoding="utf-8") as file:
        for i in range(samples):
            name = ["Äpfel", "boat", "日本語"][i % 3]
            file.write(json.dumps({"text": f"a {name} of kind {i % 7}", "labels": [name, "all"]}) +
                       "\n")


def from_bf16(raw, shape):
    return (np.frombuffer(raw, np.uint16).astype(np.uint32) << 16).view(np.float32).reshape(shape)


def read_safetensors(path):
    """Tensors by name as fp32, and the metadata, by the format's description."""
    with open(path, "rb") as file:
        data = file.read()
    length, = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + length])
    metadata = header.pop("__metadata__")
    tensors, end = {}, 0
    for name, tensor in sorted(header.items(), key=lambda each: each[1]["data_offsets"]):
        begin, last = tensor["data_offsets"]
        assert begin == end and length % 8 == 0
        end = last
        raw = data[8 + length + begin:8 + length + last]
        if tensor["dtype"] == "F32":
            tensors[name] = np.frombuffer(raw, np.float32).reshape(tensor["shape"])
        else:
            assert tensor["dtype"] == "BF16"
            tensors[name] = from_bf16(raw, tensor["shape"])
    assert 8 + length + end == len(data)
    return tensors, metadata


class Export(unittest.TestCase):
    LAYERS = []  # units of dense layers

    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.TemporaryDirectory()
        write_numbers(cls.path("train.txt"), 1500, seed=1)
        cls.X = write_numbers(cls.path("test.txt"), SAMPLES, seed=2)
        cls.train("run", "train.txt")
        predicted = dslide("predict", "--checkpoint", cls.path("run"), "--data",
                           cls.path("test.txt"), "--search", "exact", "--top-k", str(TOP), "--json")
        cls.expected = [json.loads(line)["labels"] for line in predicted.splitlines()]
        assert len(cls.expected) == SAMPLES

    @classmethod
    def tearDownClass(cls):
        cls.directory.cleanup()

    @classmethod
    def path(cls, name):
        return os.path.join(cls.directory.name, name)

    @classmethod
    def hidden(cls):
        return ",".join(str(units) for units in [HIDDEN, *cls.LAYERS])

    @classmethod
    def width(cls):
        return [HIDDEN, *cls.LAYERS][-1]

    @classmethod
    def train(cls, run, data):
        dslide("train", "--run-dir", cls.path(run), "--set", f"train.data={cls.path(data)}",
               "--set", f"model.hidden={cls.hidden()}", "--set", "train.batch=32",
               "--set", "train.epochs=5", "--set", "cluster.executors=1")

    def export(self, name, *options, source="run"):
        dslide("export", self.path(source), "--to", self.path(name), *options)
        self.assertFalse(os.path.exists(self.path(name) + ".tmp"))
        return self.path(name)

    def activations(self, arrays):
        input_rows = arrays["input"]
        h = np.maximum(self.X @ input_rows[:-1] + input_rows[-1], 0)
        for number, units in enumerate(self.LAYERS, 2):
            weights, bias = arrays[f"hidden{number}"], arrays[f"hidden{number}_bias"]
            self.assertEqual((weights.shape, bias.shape), ((units, h.shape[1]), (units,)))
            h = np.maximum(h @ weights.T + bias, 0)
        return h

    def assert_ranks(self, h, weights, bias):
        best = np.argsort(-(h @ weights.T + bias), axis=1)[:, :TOP]
        self.assertEqual(best.tolist(), self.expected)

    def test_npz(self):
        path = self.export("model.npz")
        with np.load(path) as arrays:
            dense = [f"hidden{i + 2}{part}" for i in range(len(self.LAYERS))
                     for part in ("", "_bias")]
            self.assertEqual(sorted(arrays),
                             sorted(["bias", "config", "input", "labels", "weights", *dense]))
            self.assertEqual(arrays["input"].shape, (FEATURES + 1, HIDDEN))
            self.assertEqual(arrays["weights"].shape, (LABELS, self.width()))
            self.assertEqual({arrays[name].dtype.str for name in ("input", "weights", "bias")},
                             {"<f4"})
            self.assertEqual(arrays["labels"].tolist(), [b"%d" % i for i in range(LABELS)])
            self.assertEqual(json.loads(arrays["config"].item())["model.hidden"], self.hidden())
            self.assert_ranks(self.activations(arrays), arrays["weights"], arrays["bias"])
        with zipfile.ZipFile(path) as archive:
            self.assertIsNone(archive.testzip())

    def test_npz_of_a_model_file_is_the_same(self):
        self.export("model.dslide")
        with open(self.export("a.npz"), "rb") as a, open(
                self.export("b.npz", source="model.dslide"), "rb") as b:
            self.assertEqual(a.read(), b.read())

    def test_safetensors(self):
        for rows in ("bf16", "fp32"):
            tensors, metadata = read_safetensors(self.export("model.safetensors", "--rows", rows))
            self.assert_ranks(self.activations(tensors), tensors["weights"],
                              tensors["bias"])
            self.assertEqual(json.loads(metadata["labels"]), [str(i) for i in range(LABELS)])
            self.assertEqual(json.loads(metadata["config"])["model.labels"], str(LABELS))
        default, _ = read_safetensors(self.export("default.safetensors"))
        self.assertLess(os.path.getsize(self.path("default.safetensors")),
                        os.path.getsize(self.path("model.safetensors")))
        np.testing.assert_array_equal(default["weights"], tensors["weights"])

    def test_faiss(self):
        path = self.export("model.faiss")
        tensors, _ = read_safetensors(self.export("beside.safetensors"))
        with open(path, "rb") as file:
            data = file.read()
        kind, dim, count, _, _, trained, metric, floats = struct.unpack_from("<4siqqq?iQ", data)
        self.assertEqual((kind, dim, count, trained, metric, floats),
                         (b"IxFI", self.width() + 1, LABELS, True, 0, LABELS * (self.width() + 1)))
        vectors = np.frombuffer(data, np.float32, offset=len(data) - 4 * floats)
        h = self.activations(tensors)
        queries = np.hstack([h, np.ones((SAMPLES, 1))]).astype(np.float32)
        self.assert_ranks(queries, vectors.reshape(LABELS, self.width() + 1), 0)
        if "faiss" in PACKAGES:
            import faiss

            index = faiss.read_index(path)
            self.assertEqual(index.search(queries, TOP)[1].tolist(), self.expected)
            faiss.write_index(index, self.path("again.faiss"))
            with open(self.path("again.faiss"), "rb") as file:
                self.assertEqual(file.read(), data)

    def test_torch(self):
        path = self.export("torch.safetensors", "--rows", "bf16")
        tensors, _ = read_safetensors(path)
        if "torch" not in PACKAGES:
            return
        import torch

        raw = np.fromfile(path, np.uint8)
        begin = 8 + int(raw[:8].view(np.uint64)[0]) + LABELS * 4
        size = (FEATURES + 1) * HIDDEN
        input_rows = torch.frombuffer(raw.tobytes(), dtype=torch.bfloat16, offset=begin, count=size)
        h = torch.relu(torch.tensor(self.X) @ input_rows.float().reshape(-1, HIDDEN)[:-1] +
                       input_rows.float().reshape(-1, HIDDEN)[-1])
        weights = torch.tensor(tensors["weights"]).bfloat16().float()
        scores = h @ weights.T + torch.tensor(tensors["bias"])
        self.assertEqual(scores.topk(TOP).indices.tolist(), self.expected)

    def test_names_of_labels_are_utf_8(self):
        write_texts(self.path("train.jsonl"), 300)
        self.train("texts", "train.jsonl")
        with np.load(self.export("texts.npz", source="texts")) as arrays:
            names = np.char.decode(arrays["labels"], "utf-8").tolist()
        self.assertEqual(sorted(names), sorted(["all", "Äpfel", "boat", "日本語"]))
        self.assertEqual(names[0], "all")
        _, metadata = read_safetensors(self.export("texts.safetensors", source="texts"))
        self.assertEqual(json.loads(metadata["labels"]), names)

    def test_what_cannot_be_exported_is_refused(self):
        for name, options, expected in (
                ("x.npz", ("--rows", "int8"), "--rows int8: must be fp32 for "),
                ("x.safetensors", ("--rows", "int8"), "--rows int8: must be bf16 or fp32 for "),
                ("x.dslide", ("--rows", "fp32"), "--rows fp32: must be bf16 or int8 for "),
                ("nowhere/x.faiss", (), "nowhere/x.faiss: cannot create: No such file")):
            errors = dslide("export", self.path("run"), "--to", self.path(name), *options, code=2)
            self.assertIn(expected, errors)
            self.assertFalse(os.path.exists(self.path(name)))
        self.export("int8.dslide", "--rows", "int8")
        errors = dslide("export", self.path("int8.dslide"), "--to", self.path("x.npz"), code=2)
        self.assertIn("has its neurons in int8 only", errors)


class DeepExport(Export):
    """The same of a model with dense layers, one wider than the first."""
    LAYERS = [48, 24]
    test_torch = test_what_cannot_be_exported_is_refused = None


if __name__ == "__main__":
    DSLIDE, PACKAGES = sys.argv[1], set(sys.argv[2:])
    unittest.main(argv=sys.argv[:1])
