"""Everything here needs torch and a GPU, and says so.

KDA_DEADLINE, in seconds since the epoch, is when no further test starts: GPU time is short.
"""

import os
import time

import pytest

try:
    import torch
except ImportError:
    torch = None

DEADLINE = float(os.environ.get("KDA_DEADLINE", "inf"))


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
def _no_gradients_and_no_overtime():
    if time.time() > DEADLINE:
        pytest.skip("the time is up")
    with torch.inference_mode():
        yield


@pytest.fixture
def time_is_up():
    return lambda: time.time() > DEADLINE


def pytest_terminal_summary(terminalreporter):
    counts = [
        value
        for reports in terminalreporter.stats.values()
        for report in reports
        for name, value in getattr(report, "user_properties", ())
        if name == "random problems" and report.when == "call"
    ]
    if counts:
        terminalreporter.write_line(f"random problems that agreed: {sum(counts)}")
