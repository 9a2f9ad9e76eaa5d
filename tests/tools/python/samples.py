"""What the tests of the Python package share."""
import numpy as np
import scipy.sparse

# For a few hundred samples.
SMALL = dict(hidden=32, batch=16, epochs=10, verbose=False,
             settings={"train.warmup_batches": 0, "cluster.executors": 1})
# The same model every time.
SAME = {**SMALL, "epochs": 3, "settings": {**SMALL["settings"], "train.staleness": 0}}


def blobs(samples, classes, features, seed, spread=1.2):
    """Classes around centres that overlap: X [samples, features] and the class of each sample."""
    random = np.random.default_rng(seed)
    centres = random.normal(size=(classes, features))
    y = random.integers(0, classes, samples)
    return centres[y] + spread * random.normal(size=(samples, features)), y


def tagged(samples, labels, seed):
    """A sparse X whose feature i < labels means label i, one to three a sample, with noise
    besides, and the labels of each sample."""
    random = np.random.default_rng(seed)
    X = scipy.sparse.lil_matrix((samples, labels + 20))
    y = []
    for i in range(samples):
        own = sorted(random.choice(labels, random.integers(1, 4), replace=False).tolist())
        X[i, own] = 1
        X[i, labels + random.integers(0, 20)] = 0.5
        y.append(own)
    return X.tocsr(), y


COLOURS = ["red", "green", "blue", "gray"]
THINGS = ["boat", "tree", "house", "Bücherei"]


def texts(samples, seed):
    """Texts of a colour and a thing, and both as labels."""
    random = np.random.default_rng(seed)
    pairs = [(COLOURS[random.integers(4)], THINGS[random.integers(4)]) for _ in range(samples)]
    X = [f"It is a {colour} {thing} of number {random.integers(9)}" for colour, thing in pairs]
    return X, [list(pair) for pair in pairs]
