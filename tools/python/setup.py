"""Builds the wheel: the package, its module and the executables.

They come from the build tree that the environment variable DSLIDE_BUILD names; without it CMake makes
one, build/wheel, for the Python that runs this.
"""
import glob
import os
import re
import shutil
import subprocess
import sys

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
EXECUTABLES = ["dslide", "dslide-scheduler", "dslide-server", "dslide-worker"]


def version() -> str:
    with open(os.path.join(ROOT, "CMakeLists.txt"), encoding="utf-8") as file:
        return re.search(r"^project\(dslide VERSION (\S+)", file.read(), re.MULTILINE)[1]


def build_tree() -> str:
    """A build tree that has the module and the executables."""
    given = os.environ.get("DSLIDE_BUILD")
    if given:
        if not os.path.isabs(given):
            raise SystemExit(f"DSLIDE_BUILD={given}: give an absolute path")
        return given
    tree = os.path.join(ROOT, "build", "wheel")
    subprocess.run(["cmake", "-S", ROOT, "-B", tree, "-G", "Ninja",
                    "-DCMAKE_BUILD_TYPE=RelWithDebInfo", "-DCMAKE_CXX_FLAGS_RELWITHDEBINFO=-O3 -g1",
                    "-DDSLIDE_GROUP_SOURCES=ON", "-DDSLIDE_PYTHON=ON",
                    f"-DPython_EXECUTABLE={sys.executable}"], check=True)
    subprocess.run(["cmake", "--build", tree, "--target", "dslide_python_module", *EXECUTABLES],
                   check=True)
    return tree


class BuildWithExecutables(build_py):
    def run(self):
        super().run()
        tree = build_tree()
        package = os.path.join(self.build_lib, "dslide")
        modules = glob.glob(os.path.join(tree, "python", "dslide", "_dslide.*.so"))
        if len(modules) != 1:
            raise SystemExit(f"{tree}: has no module; build the target dslide_python_module")
        self._copy(modules[0], package)
        with open(os.path.join(package, "_version.py"), "w", encoding="utf-8") as file:
            file.write(f'__version__ = "{version()}"\n')
        for name in EXECUTABLES:
            self._copy(os.path.join(tree, "bin", name), os.path.join(package, "bin"))

    def _copy(self, path, directory):
        os.makedirs(directory, exist_ok=True)
        if not os.path.exists(path):
            raise SystemExit(f"{path}: is not built")
        copy = shutil.copy(path, directory)
        subprocess.run(["strip", "--strip-unneeded", copy], check=True)


class DistributionOfThisMachine(Distribution):
    def has_ext_modules(self):
        return True


# Nothing is written beside the sources.
WORK = os.path.join(ROOT, "build", "wheel-python")
shutil.rmtree(WORK, ignore_errors=True)
os.makedirs(WORK)
setup(version=version(), cmdclass={"build_py": BuildWithExecutables},
      distclass=DistributionOfThisMachine,
      options={"build": {"build_base": WORK}, "egg_info": {"egg_base": WORK}})
