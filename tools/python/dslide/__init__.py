"""D-SLIDE from Python: train, predict, and watch clusters.

>>> from dslide import Classifier
>>> model = Classifier(epochs=4).fit(X, y)
>>> labels, probabilities = model.top_k(X, 5)
"""
from ._errors import DslideError, DslideInputError
from .classifier import Classifier
from .cluster import Cluster

__version__ = "0.1.0"
__all__ = ["Classifier", "Cluster", "DslideError", "DslideInputError"]
