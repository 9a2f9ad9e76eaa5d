"""A classifier with scikit-learn's conventions."""
from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
import warnings
import weakref
from typing import Any, Iterator, Optional, Sequence, Union

import numpy as np
import scipy.sparse

from ._base import BaseEstimator, ClassifierMixin, NotFittedError
from ._dslide import Model, write_numbers
from ._labels import (DENSE, LISTS, ONE, SPARSE, Labels, join_classes, label_offsets, name_of,
                      read_classes, read_labels, renumbered)
from ._lifetime import make_temporary, remove_temporary
from ._programs import run, setting
from ._samples import Numbers, Samples, Texts, read_samples, read_weights

_MOST_DENSE = 10_000  # classes for which an array [n, classes] is made
_MOST_PREDICTED = 100  # labels of a sample that a multi-label predict() returns
_SEARCHES = ("auto", "exact", "scan", "index")
_KEYS = {"effort": "train.effort", "hidden": "model.hidden", "epochs": "train.epochs",
         "batch": "train.batch", "learning_rate": "train.learning_rate", "seed": "common.seed"}


def _text(value: Any) -> Any:
    """A sequence as the configuration has it: (1024, 256) is 1024,256."""
    return ",".join(map(str, value)) if isinstance(value, (list, tuple)) else value


def _plain(value: Any) -> Any:
    """What JSON can keep of a parameter: no numbers of NumPy and no paths, however deep in it."""
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    if isinstance(value, np.generic):
        return value.item()
    return os.fspath(value) if isinstance(value, os.PathLike) else value


class Classifier(ClassifierMixin, BaseEstimator):
    """A network with one hidden layer or more and any number of labels, trained by `dslide train`.

    X is a SciPy sparse matrix or an array [n, features], or a list of texts: strings, pairs
    (title, text) or dicts with "title" and "text". y is an array of labels (multi-class), or a list
    of lists of labels or an indicator matrix [n, labels] of 0 and 1, sparse or dense (multi-label).
    Labels are whole numbers, names, floats or booleans, and keep their type.

    Parameters
    ----------
    effort
        "fast", "normal" or "best": about a third or four times the CPU time, by other hidden units
        and epochs where these are not given.
    hidden, epochs, batch, learning_rate, seed, servers, workers
        model.hidden, train.epochs, train.batch, train.learning_rate, common.seed, and how many
        servers and workers train. hidden may be a sequence, (1024, 256): the layers. None:
        D-SLIDE's own default. Its defaults are for large data; a few hundred samples want
        `batch=16`, more epochs and `train.warmup_batches` of 0.
    settings
        Any other configuration key: {"train.staleness": 0}. `dslide train --help-config` lists
        them. With train.staleness of 0 a fit gives the same model every time.
    run_dir
        Where the run's files stay: data, logs, checkpoints, model.dslide. A directory that is
        empty or does not exist. Each partial_fit() makes a directory in it, partial-1 and so on.
        None: a temporary directory. The checkpoint of the last fit stays in it for partial_fit(),
        as long as the classifier does.
    verbose
        Show the progress of training.

    Attributes
    ----------
    classes_
        Labels in ascending order, or the numbers of the columns of an indicator matrix.
    n_features_in_
        Features of X, if X is numbers.
    """

    def __init__(self, *, effort: Optional[str] = None,
                 hidden: Union[int, Sequence[int], None] = None, epochs: Optional[int] = None,
                 batch: Optional[int] = None, learning_rate: Optional[float] = None,
                 seed: Optional[int] = None, servers: Optional[int] = None,
                 workers: Optional[int] = None, settings: Optional[dict[str, Any]] = None,
                 run_dir: Optional[Union[str, os.PathLike]] = None, verbose: bool = True) -> None:
        self.effort = effort
        self.hidden = hidden
        self.epochs = epochs
        self.batch = batch
        self.learning_rate = learning_rate
        self.seed = seed
        self.servers = servers
        self.workers = workers
        self.settings = settings
        self.run_dir = run_dir
        self.verbose = verbose

    # Training.

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "Classifier":
        """Trains on X and y. Raises a ValueError if they are not as they should be, and a
        DslideError with the program's own text if training fails.

        sample_weight: what the loss of each sample is multiplied by, from 0 (no effect) to a
        million; a mean of about 1 suits the learning rates."""
        samples, labels = _read_training(X, y)
        weights = read_weights(sample_weight, len(samples))
        with self._directory(goes_on=False) as directory:
            data = _write_data(directory, samples, labels, weights)
            model = self._train(directory, self._arguments(data))
            self._take(model, labels.form, labels.classes)
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None,
                    epochs: int = 1) -> "Classifier":
        """Goes on with the model so far, on other samples, by `dslide train --from`; without one it
        begins. What the model knows keeps its parameters and their optimiser state, labels and
        features that are new are added, and the learning rate starts anew. What the samples of
        later calls lack is forgotten slowly.

        X may have more features than before, not fewer; y has the form that it had at first.
        classes: labels that may come, at any call; labels of y that are not among them are then an
        error. None: labels are new when they first come. epochs: passes over X, one as in
        scikit-learn; the parameter of the classifier counts for fit() only.

        A call starts a cluster of processes, which takes a second or so: give it many samples. A
        copy or a pickle goes on only where run_dir keeps the run, and a model of load() never."""
        samples, labels = _read_training(X, y)
        weights = read_weights(sample_weight, len(samples))
        if isinstance(epochs, bool) or not isinstance(epochs, (int, np.integer)) or epochs < 1:
            raise ValueError(f"epochs must be a whole number from 1, not {epochs!r}")
        named = labels.classes if classes is None else read_classes(classes)
        absent = set(labels.classes.tolist()) - set(named.tolist())
        if absent:
            raise ValueError(f"y has labels that classes lacks: {sorted(absent)[:5]}")
        earlier = None
        order = named
        if hasattr(self, "_model"):
            earlier = self._earlier_run()
            self._check_goes_on(samples, labels)
            # The model's own order: new labels come last.
            known = self.classes_ if self._model.text else self.classes_[self._class_of]
            order = np.concatenate([known, np.setdiff1d(join_classes(known, named), known)])
        with self._directory(goes_on=earlier is not None, partial=True) as directory:
            # A run that begins with another one wants an empty directory.
            data = _write_data(os.path.dirname(directory), samples, renumbered(labels, order),
                               weights)
            begin = [] if earlier is None else ["--from", earlier]
            model = self._train(directory, [*begin, *self._arguments(data, epochs)])
            self._take(model, labels.form, join_classes(order, order), order)
        return self

    def _train(self, run_directory: str, arguments: list[str]) -> Model:
        run(["train", "--run-dir", run_directory, *arguments], self.verbose)
        path = os.path.join(run_directory, "model.dslide")
        run(["export", run_directory, "--to", path])
        return Model.open(path)

    def _earlier_run(self) -> str:
        if getattr(self, "_run", None) is None:
            raise ValueError("partial_fit() has no run to go on from: this model was loaded, or "
                             "copied from one without run_dir; fit it again, with run_dir")
        return self._run

    def _check_goes_on(self, samples: Samples, labels: Labels) -> None:
        model = self._fitted()
        self._check_kind(samples)
        if labels.form != self._form:
            raise ValueError("y has another form than before (an array of labels, a list of lists, "
                             "or an indicator matrix, sparse or dense)")
        if isinstance(samples, Numbers) and samples.n_features < model.features:
            raise self._wrong_features(samples)

    @contextlib.contextmanager
    def _directory(self, goes_on: bool, partial: bool = False) -> Iterator[str]:
        """The directory of a run, which is kept if nothing fails. That of a partial_fit() lies in
        one of its own, beside its data."""
        parent = make_temporary() if self.run_dir is None else self._run_dir(goes_on, partial)
        try:
            yield os.path.join(parent, "run") if partial else parent
        except BaseException:
            if self.run_dir is None:
                remove_temporary(parent)
            raise
        before = getattr(self, "_temporary", None)
        self._temporary = None
        self._run = os.path.abspath(os.path.join(parent, "run") if partial else parent)
        if self.run_dir is None:
            shutil.rmtree(os.path.join(parent, "data"))
            # At the latest when this object ends.
            self._temporary = weakref.finalize(self, remove_temporary, parent)
        if before is not None:
            before()

    def _run_dir(self, goes_on: bool, partial: bool) -> str:
        directory = os.fspath(self.run_dir)  # type: ignore[arg-type]
        os.makedirs(directory, exist_ok=True)
        if not goes_on and os.listdir(directory):
            raise ValueError(f"run_dir={directory}: is not empty; name another directory, or "
                             "remove it")
        if not partial:
            return directory
        number = 1
        while os.path.exists(os.path.join(directory, f"partial-{number}")):
            number += 1
        directory = os.path.join(directory, f"partial-{number}")
        os.makedirs(directory)
        return directory

    def _arguments(self, data: str, epochs: Optional[int] = None) -> list[str]:
        values = {"train.data": data}
        if self.run_dir is None:
            values["checkpoint.interval_s"] = 0  # none but the last is of use
        for name, key in _KEYS.items():
            if getattr(self, name) is not None:
                values[key] = _text(getattr(self, name))
                if key in (self.settings or {}):
                    raise ValueError(f"settings has {key}, and so has the parameter {name}")
        if "train.data" in (self.settings or {}):
            raise ValueError("settings has train.data, but fit() trains on X and y")
        values.update(self.settings or {})
        if epochs is not None:
            values["train.epochs"] = epochs
            values.setdefault("train.heldout", 0)  # nothing is decided within so few
        arguments = [f"--{name}={getattr(self, name)}" for name in ("servers", "workers")
                     if getattr(self, name) is not None]
        for key, value in values.items():
            arguments += ["--set", setting(key, value)]
        return arguments

    def _take(self, model: Model, form: str, classes: np.ndarray,
              order: Optional[np.ndarray] = None) -> None:
        """`order`: the classes of the labels of a model of numbers; None: those of `classes`."""
        if not model.text:
            self.n_features_in_ = model.features
        elif hasattr(self, "n_features_in_"):
            del self.n_features_in_
        self.classes_ = classes
        self._form = form
        self._model = model
        # The class of each label of the model, which has those of texts in an order of its own.
        self._class_of = np.arange(model.labels)
        if order is not None and not model.text:
            self._class_of = np.searchsorted(classes, order)
        if model.text:
            index = {str(label): i for i, label in enumerate(classes.tolist())}
            self._class_of = np.array([index[name] for name in model.label_names()])

    # Prediction.

    def top_k(self, X: Any, k: int = 5, search: str = "auto",
              rare: float = 0) -> tuple[np.ndarray, np.ndarray]:
        """The k best labels of each sample and their probabilities, each [n, k], best first.

        search: "exact" scores all labels; "scan" all in 8 bits, and the best of those exactly;
        "index" those in the cells that look best; "auto" is "exact" up to 10,000 labels, else
        "index".

        rare: from 0 to 1, how far rare labels are preferred, at the cost of precision."""
        classes, _, probabilities = self._rank(X, k, search, rare)
        return self.classes_[classes], probabilities

    def predict(self, X: Any, k: Optional[int] = None) -> Any:
        """Labels of the samples.

        With k: the k best labels, an array [n, k]. Without k, multi-class: the best label, an array
        [n]. Without k, multi-label: the labels whose probability is at least half of the sample's
        best one (with the sigmoid loss: at least 0.5), at most 100, in the form that y had in
        fit(): a list of lists (best first), a sparse or a dense indicator matrix."""
        model = self._fitted()
        if k is not None:
            return self.classes_[self._rank(X, k)[0]]
        if self._form == ONE:
            return self.classes_[self._rank(X, 1)[0][:, 0]]
        classes, _, probabilities = self._rank(X, min(_MOST_PREDICTED, model.live_labels))
        least = 0.5 if model.loss == "sigmoid" else probabilities[:, :1] / 2
        chosen = [row[taken] for row, taken in zip(classes, probabilities >= least)]
        if self._form == LISTS:
            return [self.classes_[row].tolist() for row in chosen]
        matrix = scipy.sparse.csr_matrix(
            (np.ones(sum(map(len, chosen)), np.int64), np.concatenate(chosen),
             label_offsets(chosen)), shape=(len(chosen), len(self.classes_)))
        matrix.sort_indices()
        return matrix if self._form == SPARSE else matrix.toarray()

    def predict_proba(self, X: Any) -> np.ndarray:
        """The probabilities of all classes, [n, classes]. At most 10,000 classes: else use
        top_k()."""
        return self._score_all(X, probabilities=True)

    def decision_function(self, X: Any) -> np.ndarray:
        """The logits of all classes, [n, classes]; of two classes, [n]: the second's above the
        first's. At most 10,000 classes: else use top_k()."""
        logits = self._score_all(X, probabilities=False)
        if self._form == ONE and logits.shape[1] == 2:
            return logits[:, 1] - logits[:, 0]
        return logits

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """How often the best label is right: accuracy (multi-class), P@1 (multi-label). Samples
        without a label count as wrong, and are warned of."""
        best = self.classes_[self._rank(X, 1)[0][:, 0]] if self._fitted() else None
        labels = read_labels(y)
        _warn_without_labels(labels)
        if len(best) != len(labels):
            raise ValueError(f"X and y have different lengths: {len(best)} and {len(labels)}")
        index = {label: i for i, label in enumerate(labels.classes.tolist())}
        hits = [index.get(label, -1) in labels.ids[labels.offsets[i]:labels.offsets[i + 1]]
                for i, label in enumerate(best.tolist())]
        return float(np.average(hits, weights=sample_weight))

    def _fitted(self) -> Model:
        if not hasattr(self, "_model"):
            raise NotFittedError(f"This {type(self).__name__} instance is not fitted yet. Call "
                                 "'fit' with appropriate arguments before using this estimator.")
        return self._model

    def _read(self, X: Any) -> Samples:
        model = self._fitted()
        if model.text and hasattr(X, "__len__") and len(X) == 0:
            return Texts()
        samples = read_samples(X)
        self._check_kind(samples)
        if isinstance(samples, Numbers) and samples.n_features != model.features:
            raise self._wrong_features(samples)
        return samples

    def _check_kind(self, samples: Samples) -> None:
        text = self._fitted().text
        if isinstance(samples, Texts) != text:
            kinds = ("texts", "numbers") if text else ("numbers", "texts")
            raise ValueError(f"the model was trained on {kinds[0]}, but X has {kinds[1]}")

    def _wrong_features(self, samples: Numbers) -> ValueError:
        return ValueError(f"X has {samples.n_features} features, but {type(self).__name__} is "
                          f"expecting {self._fitted().features} features as input")

    def _adjusted(self, rare: float) -> Model:
        model = self._fitted()
        if rare == 0:
            return model
        known = getattr(self, "_adjusted_model", None)  # the last one, and what it was made of
        if known is None or known[:2] != (model, rare):
            known = (model, rare, model.preferring_rare(rare))
            self._adjusted_model = known
        return known[2]

    def _rank(self, X: Any, k: int, search: str = "auto",
              rare: float = 0) -> tuple[np.ndarray, ...]:
        """Classes, logits and probabilities, each [n, k]."""
        model = self._adjusted(rare)
        if search not in _SEARCHES:
            raise ValueError(f"search must be one of {', '.join(_SEARCHES)}, not {search!r}")
        if isinstance(k, bool) or not isinstance(k, (int, np.integer)) or not (
                0 < k <= model.live_labels):
            but = ("" if model.live_labels == model.labels else
                   f" but for {model.labels - model.live_labels} that its stream has forgotten")
            raise ValueError(
                f"k must be 1 to {model.live_labels}, the model's labels{but}, not {k!r}")
        if search == "auto":
            search = "exact" if model.labels <= _MOST_DENSE else "index"
        samples = self._read(X)
        if isinstance(samples, Texts):
            ranked = model.rank_texts(samples.lines(), k, search, 0)
        else:
            ranked = model.rank_numbers(samples.offsets, samples.ids, samples.values, k, search, 0)
        return (self._class_of[ranked[0]], *ranked[1:])

    def _score_all(self, X: Any, probabilities: bool) -> np.ndarray:
        model = self._fitted()
        if len(self.classes_) > _MOST_DENSE:
            raise ValueError(f"{len(self.classes_)} classes are too many for a dense result; "
                             "use top_k(X, k)")
        samples = self._read(X)
        if isinstance(samples, Texts):
            scores = model.score_texts(samples.lines(), probabilities, 0)
        else:
            scores = model.score_numbers(samples.offsets, samples.ids, samples.values,
                                         probabilities, 0)
        # A column that no text had is no label of the model.
        absent = 0 if probabilities else -np.inf
        result = np.full((len(samples), len(self.classes_)), absent, np.float32)
        result[:, self._class_of] = scores
        return result

    # Saving.

    def save(self, path: Union[str, os.PathLike]) -> None:
        """Writes the model as one file, which load() and `dslide serve` take."""
        self._fitted().save(os.fspath(path), json.dumps(self._notes()))

    @classmethod
    def load(cls, path: Union[str, os.PathLike]) -> "Classifier":
        """A classifier from a file of save(), or of `dslide export`. The file is mapped, not read:
        do not change it meanwhile."""
        model = Model.open(os.fspath(path))
        try:
            return cls._from_model(model)
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{os.fspath(path)}: what Classifier.save() noted in it cannot be "
                             f"used ({error}); train it again, or load it by the version that "
                             "wrote it") from None

    @classmethod
    def _from_model(cls, model: Model) -> "Classifier":
        notes = json.loads(model.notes) if model.notes else {}
        if "python" not in notes:
            loaded = cls()
            names = model.label_names()
            classes = np.arange(model.labels) if names is None else np.array(sorted(names), object)
            loaded._take(model, SPARSE if names is None else LISTS, classes)
            return loaded
        own = notes["python"]
        loaded = cls(**own["params"])
        classes = np.array(own["classes"], dtype=own["dtype"])
        if own["form"] not in (ONE, LISTS, SPARSE, DENSE) or len(classes) < model.labels:
            raise ValueError("its labels are not those of the model")
        order = own.get("order")
        loaded._take(model, own["form"], classes, None if order is None else classes[order])
        return loaded

    def _notes(self) -> dict[str, Any]:
        notes = {"params": _plain(self.get_params()), "form": self._form,
                 "dtype": self.classes_.dtype.str, "classes": self.classes_.tolist()}
        if not self._model.text and (np.diff(self._class_of) < 0).any():
            notes["order"] = self._class_of.tolist()
        return {"python": notes}

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        state.pop("_adjusted_model", None)
        if state.pop("_temporary", None) is not None:
            state["_run"] = None  # it ends with this object
        if state.pop("_model", None) is not None:
            with tempfile.TemporaryDirectory(prefix="dslide-") as directory:
                path = os.path.join(directory, "model.dslide")
                self._model.save(path, "")
                with open(path, "rb") as file:
                    state["_model_file"] = file.read()
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = dict(state)
        stored = state.pop("_model_file", None)
        self.__dict__.update(state)
        if stored is not None:
            with tempfile.NamedTemporaryFile(prefix="dslide-") as file:
                file.write(stored)
                file.flush()
                self._model = Model.open(file.name)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_model")

    def _more_tags(self) -> dict[str, Any]:
        return {"X_types": ["2darray", "sparse", "string"], "multilabel": True}


def _read_training(X: Any, y: Any) -> tuple[Samples, Labels]:
    samples = read_samples(X)
    labels = read_labels(y)
    if len(samples) != len(labels):
        raise ValueError("X and y have different lengths (inconsistent numbers of samples): "
                         f"{len(samples)} and {len(labels)}")
    _warn_without_labels(labels)
    return samples, labels


def _warn_without_labels(labels: Labels) -> None:
    without = int((np.diff(labels.offsets) == 0).sum())
    if without > 0:
        warnings.warn(f"{without} of {len(labels)} samples have no label", stacklevel=3)


def _write_data(directory: str, samples: Samples, labels: Labels,
                weights: Optional[np.ndarray]) -> str:
    """Writes a training file and returns its path, as `dslide train` takes it."""
    data = os.path.join(directory, "data")
    os.makedirs(data, exist_ok=True)
    if isinstance(samples, Numbers) and weights is not None:
        return _write_matrices(data, samples, labels, weights)
    if isinstance(samples, Numbers):
        path = os.path.join(data, "train.txt")
        write_numbers(path, samples.offsets, samples.ids, samples.values, labels.offsets,
                      labels.ids, samples.n_features, len(labels.classes))
        return path
    names = [name_of(label) for label in labels.classes.tolist()]
    if len(set(names)) < len(names):
        raise ValueError("two labels have the same name as text")
    path = os.path.join(data, "train.jsonl")
    with open(path, "w", encoding="utf-8") as file:
        for i, sample in enumerate(samples):
            ids = labels.ids[labels.offsets[i]:labels.offsets[i + 1]]
            line: dict[str, Any] = {**sample, "labels": [names[j] for j in ids]}
            if weights is not None:
                line["weight"] = float(weights[i])
            file.write(json.dumps(line, ensure_ascii=False) + "\n")
    return path


def _write_matrices(directory: str, samples: Numbers, labels: Labels, weights: np.ndarray) -> str:
    """Samples with weights: three files."""
    paths = [os.path.join(directory, name) for name in ("X.npz", "Y.npz", "W.npy")]
    X = scipy.sparse.csr_matrix((samples.values, samples.ids, samples.offsets),
                                shape=(len(samples), samples.n_features))
    Y = scipy.sparse.csr_matrix((np.ones(len(labels.ids), np.float32), labels.ids, labels.offsets),
                                shape=(len(labels), len(labels.classes)))
    Y.sort_indices()
    for path, matrix in zip(paths, (X, Y)):
        scipy.sparse.save_npz(path, matrix, compressed=False)
    np.save(paths[2], weights)
    return ",".join(paths)
