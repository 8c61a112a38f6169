"""Finds and opens libkda.so, and an NVRTC for it where only Python's packages hold one."""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path
from typing import Iterator

import kda

NAME = "libkda.so"


def _candidates() -> Iterator[str]:
    named = os.environ.get("KDA_LIBRARY")
    if named:
        yield named  # no other is tried
        return
    for folder in kda.__path__:  # of an editable install: the sources' and that of what is built
        bundled = Path(folder, NAME)
        if bundled.exists():
            yield str(bundled)
            return
    yield NAME  # where the loader looks


def open_library() -> ctypes.CDLL:
    """$KDA_LIBRARY, else the library bundled with this package, else the loader's."""
    tried = []
    for path in _candidates():
        try:
            return ctypes.CDLL(path)
        except OSError as error:
            tried.append(f"  {path}: {error}")
    raise ImportError(
        f"{NAME} did not open; tried:\n" + "\n".join(tried) + "\n"
        "Install the package with `pip install ./tools/python`, which builds and bundles the "
        "library, or set KDA_LIBRARY to one that CMake built."
    )


def nvrtc_in_packages() -> Iterator[Path]:
    """libnvrtc of NVIDIA's wheels, in the order of sys.path."""
    for entry in sys.path:
        for package in ("nvidia/cu13/lib", "nvidia/cuda_nvrtc/lib"):
            for soname in ("libnvrtc.so.13", "libnvrtc.so.12"):
                path = Path(entry, package, soname)
                if path.exists():
                    yield path


def load_packaged_nvrtc() -> bool:
    """Opens the first that opens, so that libkda finds it loaded.  Whether there was one.

    libkda itself looks at what is loaded, the toolkit, the loader's directories and an activated
    environment; it cannot know sys.path.
    """
    if os.environ.get("KDA_NVRTC_PATH"):
        return False  # the user's word
    for path in nvrtc_in_packages():
        try:
            ctypes.CDLL(str(path))
        except OSError:
            continue
        return True
    return False
