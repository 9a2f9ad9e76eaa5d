"""The base of an estimator: scikit-learn's where it is installed, else its get_params and
set_params."""
from __future__ import annotations

import inspect
from typing import Any

try:
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.exceptions import DataConversionWarning, NotFittedError
except ImportError:

    class NotFittedError(ValueError, AttributeError):  # type: ignore[no-redef]
        """The estimator has not been fitted."""

    class DataConversionWarning(UserWarning):  # type: ignore[no-redef]
        """Data was taken as another form than it has."""

    class ClassifierMixin:  # type: ignore[no-redef]
        _estimator_type = "classifier"

    class BaseEstimator:  # type: ignore[no-redef]
        @classmethod
        def _names(cls) -> list[str]:
            return sorted(name for name in inspect.signature(cls.__init__).parameters
                          if name != "self")

        def get_params(self, deep: bool = True) -> dict[str, Any]:
            """The parameters by name."""
            return {name: getattr(self, name) for name in self._names()}

        def set_params(self, **params: Any):
            """Sets parameters; an unknown one is an error."""
            for name, value in params.items():
                if name not in self._names():
                    raise ValueError(f"Invalid parameter {name!r} for estimator {self!r}. Valid "
                                     f"parameters are: {self._names()!r}.")
                setattr(self, name, value)
            return self

        def __repr__(self) -> str:
            defaults = inspect.signature(type(self).__init__).parameters
            given = ", ".join(f"{name}={getattr(self, name)!r}" for name in self._names()
                              if getattr(self, name) is not defaults[name].default)
            return f"{type(self).__name__}({given})"

__all__ = ["BaseEstimator", "ClassifierMixin", "DataConversionWarning", "NotFittedError"]
