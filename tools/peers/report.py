"""Rows to JSON and to a table for people, rewritten as they come."""

from __future__ import annotations

import json
import math
import pathlib
from typing import Iterable, Optional


def geomean(values: Iterable[float]) -> Optional[float]:
    logs = [math.log(value) for value in values]
    return math.exp(sum(logs) / len(logs)) if logs else None


def is_doubted(found: dict) -> bool:
    """What was timed did not give the output that a plain call gave."""
    if "us" not in found or found.get("o_rel_l2") is None:
        return False
    timed = found.get("timed_o_rel_l2")
    return timed is None or timed > 2 * found["o_rel_l2"] + 1e-3


def ratio(row: dict, peer: str) -> Optional[float]:
    """The peer's time over ours: above 1, ours is faster.  None where either is doubted."""
    both = [row["contenders"].get(name, {}) for name in ("ours", peer)]
    if any(is_doubted(found) for found in both):
        return None
    ours, theirs = (found.get("us") for found in both)
    return theirs / ours if ours and theirs else None


def peers_of(rows: list[dict]) -> list[str]:
    """In the order they first appear."""
    names = dict.fromkeys(name for row in rows for name in row["contenders"])
    return [name for name in names if name != "ours"]


def summary(rows: list[dict]) -> list[dict]:
    """A row a peer: geomeans over every case by regime, and where ours is slowest."""
    lines = []
    for peer in peers_of(rows):
        known = [(ratio(row, peer), row) for row in rows]
        known = [(value, row) for value, row in known if value]
        if not known:
            continue
        worst, where = min(known, key=lambda pair: pair[0])
        line = {"peer": peer, "rows": len(known), "geomean": geomean(value for value, _ in known)}
        for regime in dict.fromkeys(row["regime"] for _, row in known):
            line[regime] = geomean(value for value, row in known if row["regime"] == regime)
        line["least"] = worst
        line["least_at"] = f"{where['case']} {where['regime']}"
        lines.append(line)
    return lines


def _cell(value: object, digits: int) -> str:
    if value is None:
        return "-"
    return f"{value:.{digits}f}" if isinstance(value, float) else str(value)


def _table(columns: list[tuple[str, int]], rows: list[list]) -> str:
    lines = ["| " + " | ".join(name for name, _ in columns) + " |", "|" + "---|" * len(columns)]
    for row in rows:
        cells = (_cell(value, digits) for value, (_, digits) in zip(row, columns))
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _speed(rows: list[dict], peers: list[str]) -> str:
    columns = [("case", 0), ("regime", 0), ("ours us", 1), ("bar", 0), ("goal", 0)]
    for peer in peers:
        columns += [(f"{peer} us", 1), ("/ ours", 2)]
    lines = []
    for row in rows:
        times = row["contenders"]
        line = [row["case"], row["regime"], times.get("ours", {}).get("us")]
        line += [row["bar_us"], row["goal_us"]]
        for peer in peers:
            line += [times.get(peer, {}).get("us"), ratio(row, peer)]
        lines.append(line)
    return _table(columns, lines)


def _errors(rows: list[dict], peers: list[str]) -> str:
    columns = [("case", 0), ("regime", 0)]
    columns += [(f"{name} {what}", 5) for name in ["ours", *peers] for what in ("o", "timed o", "state")]
    lines = []
    for row in rows:
        line = [row["case"], row["regime"]]
        for name in ["ours", *peers]:
            found = row["contenders"].get(name, {})
            line += [found.get(what) for what in ("o_rel_l2", "timed_o_rel_l2", "state_rel_l2")]
        lines.append(line)
    return _table(columns, lines)


def _memory(rows: list[dict], peers: list[str]) -> str:
    """The most of a case's regimes, for which all contenders allocate alike."""
    names = ["ours", *peers]
    most: dict[str, dict[str, float]] = {}
    for row in rows:
        of_case = most.setdefault(row["case"], {})
        for name in names:
            size = row["contenders"].get(name, {}).get("workspace_bytes")
            if size is not None:
                of_case[name] = max(of_case.get(name, 0.0), size / 2**20)
    columns = [("case", 0)] + [(f"{name} MiB", 1) for name in names]
    return _table(columns, [[case, *map(of.get, names)] for case, of in most.items()])


def markdown(document: dict) -> str:
    rows, peers = document["rows"], peers_of(document["rows"])
    parts = [
        "# Ours beside the peers\n",
        f"{document['machine']}, {document['date']}, commit {document['commit']}. GPU time of a "
        "call in a CUDA graph that is replayed, or of cuDNN's, enqueued while the GPU is held up; "
        "the contenders in turn, medians; inputs drawn as tools/peers/inputs.py does; a ratio "
        "above 1 means that ours is faster, none that what was timed gave another output than a "
        "plain call (`timed o`).\n",
    ]
    parts += [f"- {name} did not run: {why}" for name, why in document["missing"].items()]
    lines = summary(rows)
    if lines:
        regimes = [name for name in lines[0] if name in ("strong", "weak", "mixed")]
        columns = [("peer / ours", 0), ("rows", 0), ("geomean", 2)]
        columns += [(name, 2) for name in regimes] + [("least", 2), ("at", 0)]
        keys = ["peer", "rows", "geomean", *regimes, "least", "least_at"]
        parts.append("\n" + _table(columns, [[line.get(key) for key in keys] for line in lines]))
    parts.append("\n## Time\n\n" + _speed(rows, peers))
    parts.append(f"\n## Error (rel-L2 against {document['truth']})\n\n" + _errors(rows, peers))
    parts.append("\n## Device memory beside inputs and outputs\n\n" + _memory(rows, peers))
    skipped = [
        f"- {row['case']} {row['regime']}, {name}: {found['skipped']}"
        for row in rows
        for name, found in row["contenders"].items()
        if "skipped" in found
    ]
    if skipped:
        parts.append("\n## Not run\n\n" + "\n".join(dict.fromkeys(skipped)) + "\n")
    return "\n".join(parts)


def write(folder: pathlib.Path, document: dict, stem: str = "peers") -> None:
    """<stem>.json, a row a line, and <stem>.md; both replaced whole."""
    head = {key: value for key, value in document.items() if key != "rows"}
    lines = ",\n".join("  " + json.dumps(row) for row in document["rows"])
    text = json.dumps(head, indent=1)[:-2] + ',\n "rows": [\n' + lines + "\n ]\n}\n"
    for name, content in ((stem + ".json", text), (stem + ".md", markdown(document))):
        part = folder / (name + ".part")
        part.write_text(content, encoding="utf-8")
        part.replace(folder / name)
