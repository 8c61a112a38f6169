"""Everything here needs torch and a GPU, and says so."""

import pytest

try:
    import torch
except ImportError:
    torch = None


def pytest_collection_modifyitems(items):
    if torch is not None and torch.cuda.is_available():
        return
    why = "no GPU" if torch is not None else "torch is not installed"
    for item in items:
        if "/gpu/" in str(item.path):
            item.add_marker(pytest.mark.skip(reason=why))


def pytest_ignore_collect(collection_path, config):
    return True if torch is None and collection_path.name.startswith("test_") else None


@pytest.fixture(autouse=True)
def _no_gradients():
    with torch.inference_mode():
        yield
