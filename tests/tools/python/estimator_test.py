#!/usr/bin/env python3
"""dslide.Classifier: scikit-learn's own checks of an estimator."""
import unittest
import warnings

from samples import SMALL
from sklearn.base import clone
from sklearn.utils.estimator_checks import check_estimator

from dslide import Classifier

# Checks that do not apply, and why.
LEFT_OUT = {
    # A list of lists is one of labels here: without that, names of labels would need an encoder.
    "check_classifiers_multilabel_representation_invariance",
    # It wants pandas, which nothing else here does.
    "check_classifier_data_not_an_array",
    # A sample of weight 0 moves no parameter, but has its place in a batch.
    "check_sample_weights_invariance",
}
# Checks that compare two fits, which are the same if training is synchronous.
TWO_FITS = {"check_fit_idempotent", "check_supervised_y_2d"}


class Estimator(unittest.TestCase):
    def test_scikit_learns_checks(self):
        warnings.simplefilter("ignore")
        model = Classifier(**SMALL)
        same = clone(model).set_params(settings={**SMALL["settings"], "train.staleness": 0})
        names = set()
        for estimator, check in check_estimator(model, generate_only=True):
            name = check.func.__name__
            names.add(name)
            if name in LEFT_OUT:
                continue
            with self.subTest(name):
                check(same if name in TWO_FITS else estimator)
        self.assertLess(LEFT_OUT | TWO_FITS, names)
        self.assertGreater(len(names), 30)


if __name__ == "__main__":
    unittest.main()
