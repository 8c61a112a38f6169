"""kda._log: what the package itself says goes where libkda's messages go."""

import pytest

import kda
from kda import _log


@pytest.fixture
def unset(monkeypatch):
    monkeypatch.setattr(_log, "_kept", None)
    monkeypatch.setattr(_log, "_least", None)


@pytest.mark.parametrize(
    "word, says",
    [("", False), ("off", False), ("error", False), (" WARN ", True), ("trace", True), ("?", True)],
)
def test_the_environment_decides(unset, monkeypatch, capfd, word, says):
    monkeypatch.setenv("KDA_LOG", word)
    _log.warn("too late")
    assert capfd.readouterr().err == ("[kda] warning: too late\n" if says else "")


def test_set_log_wins(unset, monkeypatch, capfd):
    monkeypatch.setenv("KDA_LOG", "trace")
    said = []
    try:
        for level in (kda.LogLevel.warn, kda.LogLevel.error):
            kda.set_log(level, lambda *what: said.append(what))
            _log.warn(f"at {level.name}")
        assert said == [(kda.LogLevel.warn, "at warn")]
        kda.set_log(kda.LogLevel.debug)
        _log.warn("no sink")
    finally:
        kda.set_log(kda.LogLevel.off)
    assert "[kda] warning: no sink" in capfd.readouterr().err
    _log.warn("off")
    assert not capfd.readouterr().err
