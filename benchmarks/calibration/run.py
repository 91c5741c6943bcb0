"""Checks that intervals have their nominal coverage and tests their nominal level.

`python benchmarks/calibration/run.py` prints a Markdown table for every default interval and test, over a
grid of situations, with the observed and the best attainable rate. Seeds are fixed, so the numbers are
reproducible. `--quick` thins the grid and the rounds, `--write` updates the tables on a page.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import designed
import live
import means
import missing
import others
import page
import shares
import stopping
import unbalanced
import verdicts
from cells import Cell, table

SECTIONS: dict[str, Callable[[bool], Iterator[Cell]]] = {
    "Proportions": shares.independent,
    "Proportions in clusters": shares.clustered,
    "Two proportions of the same cases": shares.matched,
    "Two proportions of different cases": shares.unmatched,
    "Means": means.single,
    "Means of clusters": means.clusters,
    "Skewed measures without limits": means.skewed,
    "Differences with repeats": means.repeated,
    "Tests": means.tests,
    "Unequal sides, and families": means.unequal,
    "Looking on the way": others.looking,
    "Stopping when decided": stopping.deciding,
    "Racing": stopping.racing,
    "The rest": others.rest,
    "Designed studies": designed.rest,
    "Levels in the model of the design": unbalanced.levels,
    "Lost trials, and different cases for each level": unbalanced.lost,
    "Skewed values in the model of the design": unbalanced.skewed,
    "Studies of several conditions": unbalanced.several,
    "Forecasts of power": unbalanced.forecasts,
    "Bounded scores": verdicts.bounded,
    "Gates": verdicts.gates,
    "Planned looks at skewed differences": verdicts.looks,
    "Small slices": verdicts.small_slices,
    "Tails that few cases hide": verdicts.hidden_tails,
    "Lost trials": verdicts.lost,
    "Imputed trials": missing.imputed,
    "Live experiments on streams": live.experiments,
}


def main() -> None:
    parser = argparse.ArgumentParser(description="Simulate coverage and false-positive rates.")
    parser.add_argument("--quick", action="store_true", help="a thin grid, fewer rounds: under a minute")
    parser.add_argument("--only", choices=tuple(SECTIONS), help="one section")
    parser.add_argument("--write", type=Path, metavar="PAGE", help="keep the sections that are run here")
    args = parser.parse_args()
    if args.quick and args.write:
        parser.error("--write: what is kept is the whole grid; leave out --quick")
    counts: Counter[str] = Counter()
    for title, section in SECTIONS.items():
        if args.only in (None, title):
            began = time.process_time()
            cells = list(section(args.quick))
            counts.update(cell.verdict for cell in cells)
            took = f"{time.process_time() - began:.0f}"
            print(f"\n## {title} ({took} s)\n\n{table(cells)}", flush=True)
            if args.write:
                page.write(args.write, {title: (took, table(cells))}, list(SECTIONS))
    print("\n" + ", ".join(f"{count} {verdict}" for verdict, count in counts.most_common()))


if __name__ == "__main__":
    main()
