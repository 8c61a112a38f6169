"""kda/_abi.py says what include/kda/kda.h says, to the byte."""

import ctypes
import os
import re
import shutil
import subprocess

import pytest
from support import ROOT

import kda
from kda import _abi

HEADERS = [ROOT / "include" / "kda" / name for name in ("kda.h", "prefill.h")]
STRUCTS = {
    "kda_problem": _abi.Problem,
    "kda_options": _abi.Options,
    "kda_strides": _abi.Strides,
    "kda_index_table": _abi.IndexTable,
    "kda_state_pool": _abi.StatePool,
    "kda_forward": _abi.Forward,
    "KdaPrefillIO": _abi.PrefillIO,
}
ENUMS = {
    "kda_dtype": (kda.DType, "KDA_"),
    "kda_index": (kda.Index, "KDA_"),
    "kda_gate": (kda.Gate, "KDA_GATE_"),
    "kda_state_layout": (kda.StateLayout, "KDA_STATE_"),
    "kda_effort": (kda.Effort, "KDA_"),
    "kda_cache_mode": (kda.CacheMode, "KDA_CACHE_"),
    "kda_log_level": (kda.LogLevel, "KDA_LOG_"),
}


def text() -> str:
    return re.sub(r"/\*.*?\*/", "", "".join(header.read_text() for header in HEADERS), flags=re.S)


def test_every_field_lies_where_the_c_compiler_puts_it(tmp_path):
    compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler")
    lines = [
        "#include <stdio.h>",
        "#include <stddef.h>",
        "#include <kda/kda.h>",
        "#include <kda/prefill.h>",
        "int main(void) {",
    ]
    expected = []
    for name, struct in STRUCTS.items():
        lines.append(f'  printf("{name} %zu\\n", sizeof({name}));')
        expected.append(f"{name} {ctypes.sizeof(struct)}")
        for field, *_ in struct._fields_:
            lines.append(f'  printf("{name}.{field} %zu\\n", offsetof({name}, {field}));')
            expected.append(f"{name}.{field} {getattr(struct, field).offset}")
    source = tmp_path / "offsets.c"
    source.write_text("\n".join([*lines, "  return 0;", "}"]))
    program = tmp_path / "offsets"
    subprocess.run([compiler, "-I", ROOT / "include", source, "-o", program], check=True)
    said = subprocess.run([program], check=True, capture_output=True, text=True).stdout
    assert said.splitlines() == expected


def test_every_call_of_the_header_is_here():
    declared = set(re.findall(r"^(?!typedef|static)[\w *]*\b(kda_\w+)\(", text(), re.M))
    assert declared == set(_abi._CALLS)


def test_the_enumerators_are_the_headers():
    for name, (enum, prefix) in ENUMS.items():
        body = re.search(r"typedef enum " + name + r"\s*\{(.*?)\}", text(), re.S).group(1)
        words = [word.split("=")[0].strip() for word in body.split(",") if word.strip()]
        assert words == [prefix + member.name.upper() for member in enum]
        assert [member.value for member in enum] == list(range(len(words)))


def test_every_code_has_its_exception():
    body = re.search(r"typedef enum kda_code\s*\{(.*?)\}", text(), re.S).group(1)
    words = [word.split("=")[0].strip() for word in body.split(",") if word.strip()]
    assert len(words) == len(_abi.CODES)
    for word, kind in zip(words[1:], _abi.CODES[1:]):
        known = word.removeprefix("KDA_").replace("_", "").replace("FAILED", "ERROR")
        assert kind.__name__.upper() == known


def test_problem_and_options_have_every_field_of_the_header():
    for raw, plain in ((_abi.Problem, kda.Problem), (_abi.Options, kda.Options)):
        fields = {field[0] for field in raw._fields_} - {"struct_size"}
        assert fields == set(plain.__dataclass_fields__)


def test_the_defaults_are_the_librarys():
    raw = _abi.problem()
    assert raw.struct_size == ctypes.sizeof(raw)
    for field in kda.Problem.__dataclass_fields__:
        assert getattr(raw, field) == getattr(kda.Problem(), field), field
    options = _abi.options()
    for field in kda.Options.__dataclass_fields__:
        assert (getattr(options, field) or "") == (getattr(kda.Options(), field) or ""), field


def test_the_pointers_of_a_forward_lie_side_by_side():
    offsets = [getattr(_abi.Forward, name).offset for name in _abi.POINTERS]
    assert offsets == list(range(offsets[0], offsets[0] + 8 * len(offsets), 8))
    raw = _abi.Forward(tokens=7, cu_seqlens=1, final_state=2)
    raw.o_strides.head = 9
    form = _abi.form(raw)
    assert form.pack(form.head, 1, *[0] * 9, 2, form.tail) == bytes(raw)


def test_the_pointers_of_a_pool_lie_where_a_form_puts_them():
    raw = _abi.Forward(tokens=7, q=3, u=11, committed_tokens=15)
    pool = raw.pool
    pool.slots, pool.stride = 4, 5
    pool.indices = _abi.IndexTable(6, 7, 8)
    pool.initial_indices, pool.num_accepted_tokens = 9, 10
    pool.checkpoints = _abi.IndexTable(12, 13, 14)
    form = _abi.form(raw)
    tail = _abi.pooled_tail(form)
    packed = tail.pack(tail.head, 6, tail.table, 9, 10, 12, tail.tail, 15)
    assert form.pack(form.head, 0, 3, *[0] * 9, packed) == bytes(raw)


def test_the_library_is_of_the_packages_version():
    assert ".".join(map(str, kda.library_version())) == kda.__version__
    pyproject = (ROOT / "tools" / "python" / "pyproject.toml").read_text()
    assert f'version = "{kda.__version__}"' in pyproject
