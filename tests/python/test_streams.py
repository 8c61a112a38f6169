"""The streams that arrays name: where a run goes, and what it waits for.  The driver is a stand-in.

The bug: __cuda_array_interface__'s stream was not looked at, so runs raced with what made the arrays.
"""

import ctypes

import pytest
from support import Array, Exporter

import kda
from kda import _abi, _streams


class Driver:
    """libcuda's calls behind the C types that the real ones have; what happened, in order."""

    def __init__(self):
        self.seen, self.capturing, self.refused = [], {}, {}
        for name, arguments in _streams._CALLS.items():
            call = ctypes.CFUNCTYPE(ctypes.c_int32, *arguments)(self.calling(name))
            setattr(self, name, call)

    def calling(self, name):
        def call(*arguments):
            code = getattr(self, f"_{name}")(*arguments)
            return self.refused.get(name, code or 0)

        return call

    def _cuStreamIsCapturing(self, stream, status):
        code = self.capturing.get(stream or 0, 0)
        status[0] = code
        return code if code == 906 else 0

    def _cuEventCreate(self, event, flags):
        assert flags == 2
        event[0] = 77

    def _cuEventRecord(self, event, stream):
        assert event == 77
        self.seen.append(("record", stream or 0))

    def _cuStreamWaitEvent(self, stream, event, flags):
        assert (event, flags) == (77, 0)
        self.seen.append(("wait", stream or 0))

    def _cuEventDestroy_v2(self, event):
        assert event == 77
        self.seen.append("destroy")

    def _cuGetErrorName(self, code, name):
        name[0] = b"CUDA_ERROR_STAND_IN"


@pytest.fixture
def driver(monkeypatch):
    lib = Driver()
    monkeypatch.setattr(ctypes, "CDLL", lambda path: lib)
    _streams._driver.cache_clear()
    real = _abi.library().kda_plan_run

    def run(handle, forward, memory, size, queue):
        lib.seen.append(("launch", queue))
        return real(handle, forward, memory, size, queue)

    monkeypatch.setattr(_abi.library(), "kda_plan_run", run)
    yield lib
    _streams._driver.cache_clear()


def runs(driver, plan, arrays, **more):
    driver.seen.clear()
    with pytest.raises(kda.Unsupported):  # the library's last check
        plan.run(**{**arrays, **more})
    return driver.seen


def name(arrays, **streams):
    for tensor, stream in streams.items():
        arrays[tensor].__cuda_array_interface__["stream"] = stream


@pytest.mark.parametrize("said, stream", [(None, 0), (1, 0), (2, 2), (0x70, 0x70)])
@pytest.mark.parametrize("names", ["q", "final_state", "all"])
def test_a_run_is_on_the_stream_that_its_arrays_name(
    driver, small_plan, arrays, said, stream, names
):
    tensors = [x for x in arrays if isinstance(arrays[x], Array)]
    name(arrays, **dict.fromkeys(tensors if names == "all" else [names], said))
    assert runs(driver, small_plan, arrays) == [("launch", stream)]


def after(first, stream):
    return [("record", first), ("wait", stream), "destroy"]


def test_a_run_is_on_the_first_of_several_streams_and_waits_for_the_others(
    driver, small_plan, arrays
):
    name(arrays, q=7, k=8, v=8, g=None, o=1, final_state=7)
    want = [*after(8, 7), *after(0, 7), ("launch", 7)]
    assert runs(driver, small_plan, arrays) == want


@pytest.mark.parametrize("stream", [5, 0, 1, 2, 7])
def test_a_run_on_a_stream_of_the_callers_waits_for_others(driver, small_plan, arrays, stream):
    name(arrays, k=7, v=7)
    queue = 0 if stream == 1 else stream  # two numbers of one stream
    waits = after(7, queue) if queue != 7 else []
    assert runs(driver, small_plan, arrays, stream=stream) == [*waits, ("launch", queue)]


@pytest.mark.parametrize("stream", [0, 1])
def test_the_default_stream_does_not_wait_for_itself(driver, small_plan, arrays, stream):
    name(arrays, q=1)
    assert runs(driver, small_plan, arrays, stream=stream) == [("launch", 0)]


def test_a_workspace_has_a_stream_too(driver, small_plan, arrays):
    workspace = Array((1 << 16,), "|u1", stream=9)
    assert runs(driver, small_plan, arrays, workspace=workspace) == [("launch", 9)]
    want = [*after(9, 4), ("launch", 4)]
    assert runs(driver, small_plan, arrays, workspace=workspace, stream=4) == want


def test_so_have_slots_and_committed_tokens(driver, arrays):
    problem = kda.Problem(heads=2, value_heads=4, key_dim=64, value_dim=32, max_tokens=64,
                          max_sequences=4, initial_state=True, final_state=True, state_pool=True,
                          committed_tokens=True)  # fmt: skip
    plan = kda.Plan(problem, kda.Options(target="sm_90a"))
    pool = Array((9, 4, 32, 64), "<f4")
    arrays.update(initial_state=pool, final_state=pool)
    slots = kda.StatePool(Array((3,), "<i4", stream=6))
    counts = Array((3,), "<i4", stream=8)
    want = [*after(8, 6), ("launch", 6)]
    assert runs(driver, plan, arrays, pool=slots, committed_tokens=counts) == want


def test_dlpack_is_told_the_stream_that_an_array_named(driver, small_plan, arrays):
    name(arrays, q=7)
    k = Exporter((24, 2, 64), None, code=4, bits=16)
    assert runs(driver, small_plan, {**arrays, "k": k}) == [("launch", 7)]
    assert k.asked == [7]


def test_a_stream_that_may_be_two_is_refused(driver, small_plan, arrays):
    name(arrays, v=0)
    for stream in (None, 5):
        with pytest.raises(ValueError, match="v has stream = 0"):
            small_plan.run(**arrays, stream=stream)
    assert not driver.seen


# To wait across the border of a capture ends the capture, so no such thing is tried.
@pytest.mark.parametrize("capturing", [{5: 1}, {7: 1}, {5: 2, 7: 2}, {5: 906}, {5: 1, 7: 906}])
def test_what_a_capture_forbids_is_refused_before(driver, small_plan, arrays, capturing):
    name(arrays, k=7)
    driver.capturing = capturing
    words = "k is ready on the stream 0x7 and the run is on the stream 0x5, and neither can wait"
    with pytest.raises(ValueError, match=words):
        small_plan.run(**arrays, stream=5)
    assert not driver.seen


def test_streams_of_a_capture_may_wait(driver, small_plan, arrays):
    name(arrays, k=7)
    driver.capturing = {5: 1, 7: 1}
    assert runs(driver, small_plan, arrays, stream=5) == [*after(7, 5), ("launch", 5)]


@pytest.mark.parametrize("call", ["cuStreamIsCapturing", "cuEventCreate", "cuEventRecord",
                                  "cuStreamWaitEvent"])  # fmt: skip
def test_a_driver_that_refuses_is_quoted_and_nothing_runs(driver, small_plan, arrays, call):
    name(arrays, k=1)
    driver.refused = {call: 400}
    with pytest.raises(kda.DeviceError, match=f"{call}.*: CUDA_ERROR_STAND_IN"):
        small_plan.run(**arrays, stream=2)
    assert not any(x[0] == "launch" for x in driver.seen)
    assert ("destroy" in driver.seen) == (call in ("cuEventRecord", "cuStreamWaitEvent"))


def test_a_missing_driver_is_named_with_the_streams(small_plan, arrays, monkeypatch):
    name(arrays, k=7)
    monkeypatch.setenv("KDA_LIBCUDA_PATH", "/nonesuch/libcuda.so")
    _streams._driver.cache_clear()
    words = "k is ready on the stream 0x7 and the run is on the thread's default.*/nonesuch/libcuda"
    with pytest.raises(kda.DeviceError, match=words):
        small_plan.run(**arrays, stream=2)
