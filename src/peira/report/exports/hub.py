"""A Hugging Face data set folder: Parquet files and a data set card.

`datasets.load_dataset(folder)` loads the trials, `load_dataset(folder, "scores")` the scores. Texts of the
study are escaped in the card, so that they cannot change its structure.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import yaml

from peira.analysis.export_formats import Makes
from peira.analysis.results import Results
from peira.core.ids import canonical, short
from peira.core.registry import Registry
from peira.core.text import grid as layout
from peira.core.text.words import counted
from peira.report.exports.csv_files import LONG, OF_SCORE, score_rows
from peira.report.exports.parquet import ALWAYS, library, write_table
from peira.results.rows import Spool, columns, flat

CARD = "README.md"
"""The file of the data set card."""
FILES = {"trials": "data/trials.parquet", "scores": "data/scores.parquet"}
"""The Parquet files by configuration."""
TAG = "peira-export"
"""The tag that marks the card as written by peira."""
SCORE_KINDS = {"number": "float", "repeat": "int", "part": "str"}
"""The types of columns of the scores."""
MOST_CONDITIONS = 50
"""The card has one row per condition, unless there are more than this."""
SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))


class HubFolder:
    """A Hugging Face data set folder."""

    makes: Makes = "folder"
    suffixes: tuple[str, ...] = ()

    def write(self, results: Results, path: Path) -> None:
        """Write both Parquet files and the card in one pass over the trials."""
        library()
        (path / "data").mkdir(parents=True)
        with Spool() as trials, Spool() as scores:
            conditions: set[bytes] = set()
            for trial in results.stream():
                if len(conditions) <= MOST_CONDITIONS:
                    conditions.add(canonical(dict(trial.condition)))
                trials.keep([flat(trial, results.run_id)])
                scores.keep(score_rows(trial, results.run_id))
            write_table(trials, columns(trials.kinds), path / FILES["trials"], ALWAYS)
            factors = sorted(name for name in scores.kinds if name.startswith("condition."))
            write_table(scores, [*LONG, *factors, *OF_SCORE], path / FILES["scores"], SCORE_KINDS)
            factors = [
                name.removeprefix("condition.") for name in trials.kinds if name.startswith("condition.")
            ]
            by = factors if len(conditions) <= MOST_CONDITIONS else []
        (path / CARD).write_text(_card(results, trials.rows, by), encoding="utf-8")

    def owns(self, path: Path) -> bool:
        """Whether the folder has no other files and a card with our tag."""
        known = {CARD, "data", *FILES.values()}
        if not (path / CARD).is_file() or any(str(f.relative_to(path)) not in known for f in path.rglob("*")):
            return False
        return f"- {TAG}\n" in (path / CARD).read_text(encoding="utf-8", errors="replace")


def _card(results: Results, trials: int, by: list[str]) -> str:
    """The data set card: YAML metadata, a description and the table of means."""
    about = {
        "pretty_name": f"{results.study}, run {short(results.run_id)}",
        "tags": [TAG],
        "size_categories": [next((size for most, size in SIZES if trials < most), "1M<n<10M")],
        "configs": [
            {
                "config_name": name,
                "data_files": [{"split": "train", "path": file}],
                **({"default": True} if name == "trials" else {}),
            }
            for name, file in FILES.items()
        ],
    }
    table = results.table(*by, overall=not by)
    head = yaml.safe_dump(about, sort_keys=False, allow_unicode=True)
    notes = "\n".join(f"\n{_escaped(note)}" for note in table.notes)
    return f"""---
{head}---

# {_escaped(results.study)}

The results of one run of an experiment, exported by peira: {counted(trials, "trial")}, run
`{results.run_id}`, {results.status}.

- `trials`: one row per trial, with its condition (`condition.*`), input, expected answer, output, scores
  (`score.*`), and what failed.
- `scores`: one row per score, with the number that is counted.

Columns of several kinds, or with nested values, are JSON text.

## Means

{replace(table, notes=()).markdown()}
{notes}
"""


def _escaped(raw: str) -> str:
    """A text as one line of Markdown without markup."""
    return layout.markdown([layout.cell(raw)], []).splitlines()[0].removeprefix("| ").removesuffix(" |")


def register(registry: Registry) -> None:
    """Register the format."""
    registry.add("export", "hf", HubFolder)
