"""Analysis of results: tables, comparisons, effects, rankings, judges, power, gates.

Submodules are imported lazily, on first use, since most runs end without most of the statistics.
"""

from __future__ import annotations

from peira.core.lazy import lazy_imports

with lazy_imports(__name__):
    from peira.analysis import cost as cost
    from peira.analysis import export_formats as export_formats
    from peira.analysis import gates as gates
    from peira.analysis import worth as worth
    from peira.analysis.compare import comparison as comparison
    from peira.analysis.compare import contrasts as contrasts
    from peira.analysis.compare import family as family
    from peira.analysis.compare import hypotheses as hypotheses
    from peira.analysis.compare import imputation as imputation
    from peira.analysis.compare import live as live
    from peira.analysis.effects import anova as anova
    from peira.analysis.effects import factor_effects as factor_effects
    from peira.analysis.effects import marginal_means as marginal_means
    from peira.analysis.effects import mixed_models as mixed_models
    from peira.analysis.effects import split_plots as split_plots
    from peira.analysis.effects import surface as surface
    from peira.analysis.judges import agreement as agreement
    from peira.analysis.judges import biases as biases
    from peira.analysis.judges import corrected_means as corrected_means
    from peira.analysis.judges import labels as labels
    from peira.analysis.judges import raters as raters
    from peira.analysis.ranking import leaderboard as leaderboard
    from peira.analysis.ranking import tournament as tournament
    from peira.analysis.table import confusion as confusion
    from peira.analysis.table import means as means
    from peira.analysis.table import quantiles as quantiles
    from peira.analysis.table import ratios as ratios
    from peira.analysis.table import reliability as reliability
    from peira.analysis.table import repeats as repeats
    from peira.analysis.table import selection as selection
    from peira.analysis.table import slices as slices
    from peira.analysis.table import value as value
    from peira.core.text import grid as grid
    from peira.plan import conditions as conditions
    from peira.results import background as background
    from peira.results import reader as reader
    from peira.results import rows as rows
    from peira.results import snapshot as snapshot
    from peira.results import trials as trials
    from peira.results.slices import marked as marked
