"""Samples as users have them, as the executables and the module want them."""
from __future__ import annotations

import json
from typing import Any, NamedTuple, Optional, Union

import numpy as np
import scipy.sparse

from ._dslide import MOST_FEATURE_VALUE, MOST_SAMPLE_WEIGHT


class Numbers(NamedTuple):
    """Compressed sparse rows: offsets [n + 1], ids and values [entries]."""

    offsets: np.ndarray  # int64
    ids: np.ndarray  # int32
    values: np.ndarray  # float32
    n_features: int

    def __len__(self) -> int:  # type: ignore[override]
        return len(self.offsets) - 1


class Texts(list):
    """A dict a sample: "text", "title" or both."""

    def lines(self) -> list[str]:
        """The samples as JSON lines."""
        return [json.dumps(sample, ensure_ascii=False) for sample in self]


Samples = Union[Numbers, Texts]


def read_samples(X: Any) -> Samples:
    """X as numbers or as texts. Errors are those of scikit-learn where it has one."""
    if scipy.sparse.issparse(X):
        return _from_sparse(X)
    if isinstance(X, (str, bytes, dict)):
        raise ValueError("X is one sample; give a list of samples")
    if hasattr(X, "__dataframe__") or hasattr(X, "__array__") or not hasattr(X, "__len__"):
        array = np.asarray(X)
        if array.ndim == 1 and array.dtype.kind in "UO" and (
                len(array) == 0 or _is_text(array[0])):
            return _from_texts(array.tolist())
        return _from_dense(array)
    if len(X) > 0 and _is_text(X[0]):
        return _from_texts(X)
    return _from_dense(X)


def read_weights(sample_weight: Any, samples: int) -> Optional[np.ndarray]:
    """A weight for each sample, float32 [samples]; None if all are 1."""
    if sample_weight is None:
        return None
    weights = np.asarray(sample_weight)
    if weights.ndim == 0:
        weights = np.full(samples, weights)
    if weights.ndim != 1:
        raise ValueError("Sample weights must be 1D array or scalar")
    if weights.shape[0] != samples:
        raise ValueError(f"sample_weight.shape == {weights.shape}, expected {(samples,)}!")
    weights = weights.astype(np.float64)
    wrong = np.flatnonzero(~((weights >= 0) & (weights <= MOST_SAMPLE_WEIGHT)))
    if len(wrong) > 0:
        raise ValueError(f"sample {wrong[0]}: the weight is {weights[wrong[0]]:g}, which is not a "
                         f"number from 0 to {MOST_SAMPLE_WEIGHT:.0f}")
    return None if (weights == 1).all() else weights.astype(np.float32)


def _is_text(sample: Any) -> bool:
    if isinstance(sample, (tuple, list)):
        return len(sample) == 2 and all(isinstance(part, str) for part in sample)
    return isinstance(sample, (str, dict))


def _from_texts(X: Any) -> Texts:
    texts = Texts()
    for i, sample in enumerate(X):
        if isinstance(sample, str):
            texts.append({"text": str(sample)})
        elif isinstance(sample, dict):
            unknown = set(sample) - {"title", "text"}
            if unknown or not sample:
                raise ValueError(f"sample {i}: a dict has a text, a title or both, and nothing "
                                 f"else, but this one has {sorted(map(str, sample))}")
            parts = {key: value for key, value in sample.items() if value is not None}
            if not parts:
                raise ValueError(f"sample {i}: a dict has a text, a title or both, but here they "
                                 "are None")
            texts.append({key: _string(value, i) for key, value in parts.items()})
        elif isinstance(sample, (tuple, list)) and len(sample) == 2:
            texts.append({"title": _string(sample[0], i), "text": _string(sample[1], i)})
        else:
            raise ValueError(f"sample {i}: is {type(sample).__name__}, but the first is a text")
    for i, sample in enumerate(texts):
        try:
            for text in sample.values():
                text.encode()
        except UnicodeEncodeError:
            raise ValueError(f"sample {i}: has a surrogate, which is no character") from None
    return texts


def _string(value: Any, i: int) -> str:
    if not isinstance(value, str):
        raise ValueError(f"sample {i}: a title or text is {type(value).__name__}, not a string")
    return str(value)


def _from_dense(X: Any) -> Numbers:
    array = np.asarray(X)
    if np.iscomplexobj(array):
        raise ValueError("Complex data not supported")
    if array.ndim != 2:
        raise ValueError(f"Expected 2D array, got {array.ndim}D array instead. Reshape your data "
                         "using array.reshape(-1, 1) if it has one feature, or "
                         "array.reshape(1, -1) if it is one sample.")
    if array.dtype.kind not in "biuf":
        array = array.astype(np.float64)
    _check_shape(array.shape)
    _check_finite(array)
    return _from_csr(scipy.sparse.csr_matrix(array), array.shape)


def _from_sparse(X: Any) -> Numbers:
    if X.dtype.kind == "c":
        raise ValueError("Complex data not supported")
    _check_shape(X.shape)
    matrix = X.tocsr()
    _check_finite(matrix.data)
    if not matrix.has_canonical_format:
        matrix = matrix.copy()
        matrix.sum_duplicates()
    return _from_csr(matrix, matrix.shape)


def _from_csr(matrix: Any, shape: tuple[int, int]) -> Numbers:
    with np.errstate(over="ignore"):
        values = matrix.data.astype(np.float32)
    if not np.isfinite(values).all():
        raise ValueError("Input X contains a value too large for dtype('float32').")
    large = np.flatnonzero(np.abs(values) > MOST_FEATURE_VALUE)
    if len(large) > 0:
        raise ValueError(f"Input X contains the value {values[large[0]]:g}, at most "
                         f"{MOST_FEATURE_VALUE:g} is taken; scale the data")
    return Numbers(matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32), values,
                   shape[1])


def _check_shape(shape: tuple[int, int]) -> None:
    if shape[0] == 0:
        raise ValueError(f"Found array with 0 sample(s) (shape={shape}) while a minimum of 1 is "
                         "required.")
    if shape[1] == 0:
        raise ValueError(f"Found array with 0 feature(s) (shape={shape}) while a minimum of 1 is "
                         "required.")
    if shape[1] >= 2**31:
        raise ValueError(f"X has {shape[1]} features, at most {2**31 - 1} are possible")


def _check_finite(values: np.ndarray) -> None:
    if values.dtype.kind != "f" or np.isfinite(values).all():
        return
    what = "NaN" if np.isnan(values).any() else (
        f"infinity or a value too large for dtype('{values.dtype}')")
    raise ValueError(f"Input X contains {what}.")
