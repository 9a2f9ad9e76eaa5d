"""D-SLIDE from Python: train, predict, and watch clusters.

>>> from dslide import Classifier
>>> model = Classifier(epochs=4).fit(X, y)
>>> labels, probabilities = model.top_k(X, 5)
"""
from ._errors import DslideError, DslideInputError

try:
    from ._dslide import Model as _Model  # noqa: F401
except ModuleNotFoundError as error:
    if error.name != __name__ + "._dslide":
        raise
    raise ModuleNotFoundError(
        f"{__path__[0]}: the package's C++ half is not built for this Python; build the target "
        "dslide_python_module (tools/python/README.md), and use the Python that CMake found",
        name=error.name) from None

from .classifier import Classifier
from ._version import __version__
from .cluster import Cluster

__all__ = ["Classifier", "Cluster", "DslideError", "DslideInputError"]
