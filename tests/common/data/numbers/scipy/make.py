#!/usr/bin/python3
"""Writes the matrices that npz_test.cc and npy_test.cc read, with Debian's python3-scipy."""
import os

import numpy
import scipy.sparse

HERE = os.path.dirname(os.path.abspath(__file__))


def save(name, dense, dtype, index=numpy.int32, form="csr", compressed=True):
    matrix = scipy.sparse.csr_matrix(numpy.array(dense, dtype=dtype)).asformat(form)
    if form == "csr":
        matrix.indices = matrix.indices.astype(index)
        matrix.indptr = matrix.indptr.astype(index)
    scipy.sparse.save_npz(os.path.join(HERE, name), matrix, compressed=compressed)


FEATURES = [[0.5, 0, 0, -2], [0, 0, 0, 0], [0, 1e-3, 7, 0]]
LABELS = [[1, 0, 1], [0, 0, 0], [0, 1, 0]]
save("features64.npz", FEATURES, numpy.float64)
save("features32.npz", FEATURES, numpy.float32, numpy.int64, compressed=False)
save("labels-bool.npz", LABELS, bool)
save("labels-int64.npz", LABELS, numpy.int64, numpy.int64, compressed=False)
save("columns.npz", LABELS, numpy.float32, form="csc")

# Entries in any order, one column twice, and a zero that is stored.
save_as = scipy.sparse.csr_matrix(
    (numpy.array([1, 2, 4, 0], numpy.float32), numpy.array([3, 0, 3, 1]), numpy.array([0, 3, 4])),
    shape=(2, 4))
scipy.sparse.save_npz(os.path.join(HERE, "unsorted.npz"), save_as)

# A row of which the index says that it has 2^24 + 1 entries.
numpy.savez_compressed(
    os.path.join(HERE, "long-row.npz"), format=numpy.array(b"csr"), shape=numpy.array([2, 4]),
    indptr=numpy.array([0, 1, 2**24 + 2]), indices=numpy.array([1, 2]), data=numpy.array([1.0, 2.0]))


def save_dense(name, rows, dtype, order="C"):
    numpy.save(os.path.join(HERE, name), numpy.array(rows, dtype=dtype, order=order))


save_dense("dense16.npy", FEATURES, "<f2")
save_dense("dense32.npy", FEATURES, "<f4")
save_dense("dense64.npy", FEATURES, "<f8")
# The largest, the smallest, one without a leading 1, one rounded, a zero below 0.
save_dense("half.npy", [[65504, 2.0**-24, -2.0**-15], [1 / 3, 0, -0.0]], "<f2")
save_dense("fortran.npy", FEATURES, "<f4", order="F")
save_dense("big-endian.npy", FEATURES, ">f4")
save_dense("int64.npy", LABELS, "<i8")
save_dense("dates.npy", [[0]], "<M8[s]")
save_dense("line.npy", [1, 2], "<f4")
save_dense("cube.npy", [[[1, 2]]], "<f4")
save_dense("no-columns.npy", numpy.zeros((2, 0)), "<f4")
save_dense("no-rows.npy", numpy.zeros((0, 2)), "<f4")
save_dense("nan.npy", [[0, 1, 2], [3, 4, numpy.nan]], "<f4")
save_dense("infinite16.npy", [[-numpy.inf]], "<f2")
save_dense("too-large64.npy", [[1e39]], "<f8")
