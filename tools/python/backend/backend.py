"""scikit-build-core, and NVIDIA's header wheels where the machine has no CUDA toolkit.

Building needs cuda.h and nvrtc.h, types only.  tools/cmake/kda_cuda_headers.cmake looks for a
toolkit; without one the headers come from two wheels in the build environment alone.
"""

from __future__ import annotations

import glob
import os
import sysconfig
from pathlib import Path
from typing import Any

from scikit_build_core import build as _build

# Without these two pip builds the library once for its metadata and once more for the wheel.
prepare_metadata_for_build_wheel = _build.prepare_metadata_for_build_wheel
prepare_metadata_for_build_editable = _build.prepare_metadata_for_build_editable

_WHEELS = ["nvidia-cuda-nvrtc==13.0.88", "nvidia-cuda-runtime==13.0.96"]


def _toolkit() -> bool:
    roots = [os.environ.get(name, "") for name in ("CUDA_HOME", "CUDA_PATH")]
    roots += ["/usr/local/cuda", "/usr", *glob.glob("/usr/local/cuda-*"), *glob.glob("/opt/cuda*")]
    return any(
        Path(root, "include", "cuda.h").exists() and Path(root, "include", "nvrtc.h").exists()
        for root in roots
        if root
    )


def _point_at_wheels() -> None:
    packages = Path(sysconfig.get_path("purelib"))
    for header, variable in (("cuda.h", "CUDA"), ("nvrtc.h", "NVRTC")):
        found = next(packages.glob(f"nvidia/*/include/{header}"), None)
        if found is not None:
            given = os.environ.get("CMAKE_ARGS", "")
            os.environ["CMAKE_ARGS"] = (
                f"{given} -DKDA_{variable}_INCLUDE_DIR={found.parent}".strip()
            )


class UnsupportedOperation(Exception):
    """By this name frontends know that a backend does not do what they ask."""


def build_sdist(folder: str, settings: Any = None) -> str:
    # The C++ sources lie above this folder, where no sdist reaches.
    raise UnsupportedOperation(
        "kda has no sdist, as it would lack the C++ sources; build a wheel from a checkout of the "
        "repository: pip wheel ./tools/python, or python -m build --wheel tools/python"
    )


def get_requires_for_build_wheel(settings: Any = None) -> list[str]:
    return _build.get_requires_for_build_wheel(settings) + ([] if _toolkit() else _WHEELS)


def get_requires_for_build_editable(settings: Any = None) -> list[str]:
    return _build.get_requires_for_build_editable(settings) + ([] if _toolkit() else _WHEELS)


def build_wheel(folder: str, settings: Any = None, metadata: str | None = None) -> str:
    if not _toolkit():
        _point_at_wheels()
    return _build.build_wheel(folder, settings, metadata)


def build_editable(folder: str, settings: Any = None, metadata: str | None = None) -> str:
    if not _toolkit():
        _point_at_wheels()
    return _build.build_editable(folder, settings, metadata)
