#!/usr/bin/env python3
"""The wheel of the Python package, without network: it trains wherever it is installed.

    tests/tools/python/wheel_test.py BUILD
"""
import glob
import os
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCES = os.path.join(HERE, "..", "..", "..", "tools", "python")
BUILD = ""


def pip(*arguments, **variables):
    result = subprocess.run([sys.executable, "-m", "pip", "--no-cache-dir", *arguments,
                             "--no-deps", "--no-index"], env={**os.environ, **variables},
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                            check=False)
    return result.returncode, result.stdout


class Wheel(unittest.TestCase):
    def test_an_installed_wheel_has_all_that_it_needs(self):
        with tempfile.TemporaryDirectory() as directory:
            code, said = pip("wheel", SOURCES, "--no-build-isolation", "-w", directory,
                             DSLIDE_BUILD=BUILD)
            self.assertEqual(code, 0, said)
            wheel, = glob.glob(os.path.join(directory, "*.whl"))
            target = os.path.join(directory, "target")
            code, said = pip("install", "--target", target, wheel)
            self.assertEqual(code, 0, said)
            program = ("import dslide; from samples import *; X, y = texts(300, 1); "
                       "model = dslide.Classifier(**SMALL).fit(X, y); "
                       "print(dslide.__file__, model.score(X, y))")
            result = subprocess.run([sys.executable, "-B", "-c", program], cwd=directory,
                                    env={"PATH": "/usr/bin:/bin", "PYTHONPATH": f"{target}:{HERE}"},
                                    capture_output=True, text=True, check=False)
            self.assertEqual(result.stderr, "")
            self.assertEqual(result.stdout.split(), [f"{target}/dslide/__init__.py", "1.0"])
        sources = os.listdir(SOURCES)
        self.assertEqual([name for name in sources if name == "build" or "egg" in name], [])

    def test_a_build_tree_that_lacks_them_is_refused(self):
        with tempfile.TemporaryDirectory() as directory:
            for tree, message in ((directory, "has no module; build the target"),
                                  ("build/release", "give an absolute path")):
                code, said = pip("wheel", SOURCES, "--no-build-isolation", "-w", directory,
                                 DSLIDE_BUILD=tree)
                self.assertNotEqual(code, 0)
                self.assertIn(message, said)
            self.assertEqual(glob.glob(os.path.join(directory, "*.whl")), [])


if __name__ == "__main__":
    BUILD = sys.argv[1]
    unittest.main(argv=sys.argv[:1])
