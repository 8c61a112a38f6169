"""Prints the rows of experiments.jsonl as one table a kind: python3 table.py experiments.jsonl"""

import json
import sys


def main(path):
    kinds = {}
    with open(path, encoding="utf-8") as rows:
        for line in rows:
            row = json.loads(line)
            kinds.setdefault(row.pop("bench"), []).append(row)
    for kind, rows in kinds.items():
        names = list(rows[0])
        cells = [[str(row.get(name, "")) for name in names] for row in rows]
        widths = [max(len(text) for text in column) for column in zip(names, *cells)]
        print(f"== {kind}")
        for line in [names, *cells]:
            print("  ".join(text.rjust(width) for text, width in zip(line, widths)))


if __name__ == "__main__":
    main(sys.argv[1])
