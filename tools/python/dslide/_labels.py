"""Labels as users have them: one a sample, lists, or an indicator matrix."""
from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

from ._base import DataConversionWarning

# The form of y, which predictions have too.
ONE, LISTS, SPARSE, DENSE = "one", "lists", "sparse", "dense"


class Labels(NamedTuple):
    """The classes of sample i are classes[ids[offsets[i]:offsets[i + 1]]]."""

    form: str
    classes: np.ndarray
    offsets: np.ndarray  # [n + 1] int64
    ids: np.ndarray  # int32

    def __len__(self) -> int:  # type: ignore[override]
        return len(self.offsets) - 1


def read_labels(y: Any) -> Labels:
    """y with its classes: all that occur, in ascending order; the columns of a matrix."""
    if y is None:
        raise ValueError("requires y to be passed, but the target y is None")
    if scipy.sparse.issparse(y):
        return _from_matrix(y.tocsr(), SPARSE)
    if _is_lists(y):
        return _from_lists(y)
    array = np.asarray(y)
    if array.ndim == 2 and array.shape[1] == 1:
        warnings.warn("A column-vector y was passed when a 1d array was expected. Please change "
                      "the shape of y to (n_samples,), for example using ravel().",
                      DataConversionWarning, stacklevel=3)
        array = array.ravel()
    if array.ndim == 1:
        if isinstance(y, (list, tuple)) and {type(label) for label in y} == {int}:
            _check_64_bits(array)
        return _from_array(array)
    if array.ndim != 2:
        raise ValueError(f"y has {array.ndim} dimensions; it is an array of labels, a list of "
                         "lists of labels, or an indicator matrix")
    return _from_matrix(array, DENSE)


def read_classes(classes: Any) -> np.ndarray:
    """Classes that are named beforehand: labels, each once, in ascending order."""
    return read_labels(list(classes) if isinstance(classes, (set, frozenset)) else classes).classes


def join_classes(known: np.ndarray, more: np.ndarray) -> np.ndarray:
    """All of both, in ascending order. They must be of one type."""
    kinds = [_kind_of(known), _kind_of(more)]
    if kinds[0] != kinds[1]:
        raise ValueError(f"labels were {kinds[0]}, but these are {kinds[1]}")
    if known.dtype.kind == "O" or more.dtype.kind == "O":
        return np.array(sorted(set(known.tolist()) | set(more.tolist())), object)
    return np.union1d(known, more)


def renumbered(labels: Labels, classes: np.ndarray) -> Labels:
    """The same labels, whose classes are now these, which have them all."""
    index = {label: i for i, label in enumerate(classes.tolist())}
    ids = np.array([index[label] for label in labels.classes.tolist()], np.int32)[labels.ids]
    return Labels(labels.form, classes, labels.offsets, ids)


def _kind_of(classes: np.ndarray) -> str:
    first = classes[0].item() if isinstance(classes[0], np.generic) else classes[0]
    return type(first).__name__


def label_offsets(classes: list[Any]) -> np.ndarray:
    """[n + 1] of lists."""
    offsets = np.zeros(len(classes) + 1, np.int64)
    np.cumsum([len(each) for each in classes], out=offsets[1:])
    return offsets


def name_of(label: Any) -> str:
    """The name that the model gives a label of a text."""
    name = str(label)
    kept = "".join(" " if ord(c) < 32 or ord(c) == 127 else c for c in name).strip(" ")
    if not kept or kept != name:
        raise ValueError(f"label {name!r}: a label of texts is not empty, has no control "
                         "characters, and no spaces around it")
    return name


def _is_lists(y: Any) -> bool:
    kinds = (list, tuple, set, frozenset)
    if isinstance(y, np.ndarray):
        return y.ndim == 1 and len(y) > 0 and isinstance(y[0], kinds + (np.ndarray,))
    return hasattr(y, "__len__") and len(y) > 0 and hasattr(y, "__iter__") and isinstance(
        next(iter(y)), kinds)


def _from_lists(y: Any) -> Labels:
    lists = []
    for i, each in enumerate(y):
        if isinstance(each, str) or not hasattr(each, "__iter__"):
            raise ValueError(f"sample {i}: the first sample has a list of labels, this one has "
                             f"{each!r}")
        # Each label once; of NumPy's types, Python's own.
        lists.append(list(dict.fromkeys(
            label.item() if isinstance(label, np.generic) else label for label in each)))
    kinds = {type(label) for each in lists for label in each}
    if not kinds:
        raise ValueError("no sample has a label")
    if kinds - {str, int, float, bool} or len(kinds) > 1:
        names = ", ".join(sorted(kind.__name__ for kind in kinds))
        raise ValueError(f"labels are str, int, float or bool, all of one type; these are {names}")
    if kinds == {float}:
        _check_finite(np.array([label for each in lists for label in each]))
    classes = sorted({label for each in lists for label in each})
    if kinds == {int}:
        _check_64_bits(np.array(classes))
    index = {label: i for i, label in enumerate(classes)}
    offsets = label_offsets(lists)
    ids = np.fromiter((index[label] for each in lists for label in each), np.int32, offsets[-1])
    # Names of different lengths, each with its own memory.
    array = np.array(classes, dtype=object if kinds == {str} else None)
    return Labels(LISTS, array, offsets, ids)


def _from_array(array: np.ndarray) -> Labels:
    if array.dtype.kind == "f":
        _check_finite(array)
        if (array != np.floor(array)).any():
            raise ValueError("Unknown label type: 'continuous'. Labels are whole numbers or names.")
    elif array.dtype.kind == "O":
        kinds = {type(label) for label in array}
        if len(kinds) > 1 or not kinds <= {str, int, float, bool}:
            names = ", ".join(sorted(kind.__name__ for kind in kinds))
            raise ValueError("Unknown label type: labels are str, int, float or bool, all of one "
                             f"type; these are {names}")
        if kinds == {float}:
            _check_finite(array.astype(float))
    elif array.dtype.kind not in "biuU":
        raise ValueError(f"Unknown label type: labels are of type {array.dtype}")
    classes, ids = np.unique(array, return_inverse=True)
    return Labels(ONE, classes, np.arange(len(array) + 1, dtype=np.int64), ids.astype(np.int32))


def _check_64_bits(whole: np.ndarray) -> None:
    """Of whole numbers that no type has in common NumPy makes floats, and labels become equal."""
    if whole.dtype.kind not in "biu":
        raise ValueError("labels are whole numbers of 64 bits, all with a sign or all without; "
                         "these are larger")


def _check_finite(values: np.ndarray) -> None:
    if np.isnan(values).any():
        raise ValueError("Input y contains NaN.")
    if np.isinf(values).any():
        raise ValueError("Input y contains infinity or a value too large for dtype('float64').")


def _from_matrix(y: Any, form: str) -> Labels:
    matrix = scipy.sparse.csr_matrix(y, copy=form == SPARSE)
    if matrix.dtype.kind not in "biuf":
        raise ValueError(f"an indicator matrix has 0 and 1, not values of type {matrix.dtype}")
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    if not (matrix.data == 1).all():
        raise ValueError("Unknown label type: a matrix y is an indicator matrix, of 0 and 1 only")
    if matrix.nnz == 0:
        raise ValueError("no sample has a label")
    if matrix.shape[1] >= 2**31:
        raise ValueError(f"y has {matrix.shape[1]} columns, at most {2**31 - 1} are possible")
    return Labels(form, np.arange(matrix.shape[1]), matrix.indptr.astype(np.int64),
                  matrix.indices.astype(np.int32))
