"""The results of a run: trials, scores, failures, and all analyses and exports as methods."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from copy import copy
from dataclasses import replace
from functools import cached_property, partial
from os import PathLike
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import peira.analysis as analysis
from peira.core.chat.transcript import Transcript
from peira.core.garbage_collector import FEW, collection_paused
from peira.core.ids import Json, short
from peira.core.log.events import Spent, Status
from peira.core.looks import Look
from peira.core.registry import registry
from peira.core.text.result_value import ResultValue, TextGrid
from peira.errors import Invalid, Unknown
from peira.results.aims import Aims
from peira.results.trials import (
    FAILED,
    FailureRow,
    ScoreRow,
    StoredTrials,
    TrialResult,
    failures,
    shown_trial,
)

MOST_ROWS = 24
"""Up to so many conditions the table of means has a row for each."""


class Results(ResultValue):
    """The results of one run; shown as its status, its counts and the table of means.

    `table`, `failures`, `to_csv` and `to_jsonl` stream the trials. `trials`, `scores`, `frame`, `len` and
    iteration load all of them into memory on first use. `notes` apply to every number; `look` is the last
    look of the study's stopping rule.
    """

    nothing = "no trials"

    def __init__(
        self,
        load: Callable[[], Iterator[TrialResult]],
        *,
        run_id: str,
        study: str,
        status: str,
        counts: Mapping[str, int],
        notes: Sequence[str] = (),
        store: Any = None,
        spent: Sequence[Spent] = (),
        aims: Aims | None = None,
        origin: analysis.background.Reopen | None = None,
        memory: analysis.value.CachedTables | None = None,
        look: Look | None = None,
        background: Callable[[], analysis.background.Background] | None = None,
        conditions: Sequence[analysis.conditions.Condition] = (),
        brief: Callable[[], Iterator[TrialResult]] | None = None,
        name: str = "",
        live: analysis.live.LiveDesign | None = None,
        count: int | None = None,
    ) -> None:
        """Take the results of a run; `load` starts a new pass over its stored trials.

        `brief` does the same without what no table shows, which is quicker.
        `counts` are trials by state, `spent` the spending by model. `memory` caches tables, `origin` reopens
        the store for reading, and `background` describes how the run came about; None where it is not known.
        `conditions` are those of the plan, as far as they are listed. `name` is what the run was called.
        `live` is how the jobs of a stream got their conditions, if these are its results. `count` is the
        number of trials, None if it is known only when they were read.
        """
        self._load, self._brief, self._count = load, brief, count
        self._memory = memory
        self.origin = origin
        self.store = store
        self.run_id, self.name = run_id, name
        self.study = study
        self.status = status
        self.counts: Mapping[str, int] = MappingProxyType(dict(counts))
        self.notes = tuple(notes)
        self.spent_by_model = tuple(spent)
        self.aims = aims
        self.look = look
        self._background = background
        self._conditions = conditions
        self.live = live

    @cached_property
    def background(self) -> analysis.background.Background | None:
        """How the run came about, read at first use; None if these are not the results of a stored run."""
        return self._background() if self._background else None

    @cached_property
    def trials(self) -> Sequence[TrialResult]:
        """All trials as a list; they are read when the first of them is asked for."""
        return StoredTrials(self._load, self._count)

    @property
    def _trials_read(self) -> bool:
        """Whether the trials are in memory."""
        return "trials" in self.__dict__ and bool(self.__dict__["trials"].are_read)

    @property
    def label(self) -> str:
        """What the run is called where several are shown: its name, or the beginning of its id."""
        return self.name or short(self.run_id)

    @property
    def scores(self) -> list[ScoreRow]:
        """All scores, each with its trial."""
        return [ScoreRow(trial, score) for trial in self.trials for score in trial.scores.values()]

    @property
    def failures(self) -> list[FailureRow]:
        """Every trial that failed, and every failed answer or score of the others."""
        return [row for trial in self._stream() for row in failures(trial)]

    @property
    def no_verdicts(self) -> list[ScoreRow]:
        """Every score without a verdict; `score.no_verdict.reason` says why."""
        return [row for row in self.scores if row.score.no_verdict]

    @property
    def ok(self) -> bool:
        """Whether the run completed and nothing failed."""
        return self.status == Status.completed and not any(self.counts.get(state) for state in FAILED)

    @property
    def cost(self) -> analysis.cost.Bill:
        """What its trials and scores cost when their calls were bought, in whichever run."""
        return analysis.cost.cost(self._stream())

    @property
    def spent(self) -> analysis.cost.Bill:
        """What was paid in this run, including retries and judges."""
        return analysis.cost.spent(self.spent_by_model)

    def table(
        self,
        *by: str,
        score: str | None = None,
        level: float = 0.95,
        interval: str = "",
        across: str = "",
        overall: bool = False,
    ) -> analysis.value.Table:
        """Means with intervals, by factors, by agent, case, slice or cluster, or by metadata of cases.

        Without names, by everything that varies, or in one row if that would be more than `MOST_ROWS`
        conditions. `overall` gives that one row always.

        Failures are in no mean and are counted beside it. `score` selects one score, one part of it, "took",
        "cost", or a metric that agents report.
        `interval` names a method other than the one that fits the data (bootstrap, t, wilson, exact,
        clopper-pearson). Levels of the factor `across` count as a sample, like cases. Drift of the anchors is
        noted below the table.
        """
        by = by or (() if overall else tuple(name for name in self.varying if name != across))
        query = analysis.value.TableQuery(by, score, level, interval, across)
        make = partial(self._compute_table, query)
        found = self._memory.table(query, make) if self._memory and not self._trials_read else make()
        sliced = self.aims.slice_notes(by) if self.aims and self.aims.slices else []
        return replace(found.table, notes=(*found.table.notes, *sliced, *self.notes, *found.drift))

    @cached_property
    def varying(self) -> tuple[str, ...]:
        """Every factor that varies, and "agent" if agents do; none where there are too many conditions."""
        conditions = self._conditions
        if len(conditions) > MOST_ROWS:
            return ()
        names = dict.fromkeys(name for condition in conditions for name in condition.shown)
        return tuple(name for name in names if len({repr(one.shown.get(name)) for one in conditions}) > 1)

    def _compute_table(self, query: analysis.value.TableQuery) -> analysis.value.TableWithDrift:
        """Compute the table and the drift of the anchors in one pass over the trials."""
        anchors: list[TrialResult] = []
        brief = self._brief is not None and not self._trials_read
        trials = _collect_anchors(self._brief() if brief and self._brief else self._stream(), anchors)
        few = self._count is not None and self._count <= FEW
        with nullcontext() if few else collection_paused():
            table = analysis.means.tabulate(
                trials, query.by, query.score, query.level, interval=query.interval, across=query.across
            )
        return analysis.value.TableWithDrift(
            table, tuple(analysis.reliability.drift(anchors)) if anchors else ()
        )

    def reduced(self, name: str, passing: float = 1.0) -> Results:
        """The same results with all repeats of a case reduced to one trial.

        `name` is a reducer: mean, majority, best, pass@k, pass^k, at_least_k (where a score of `passing` is a
        pass), or consistency.
        """
        note = f"repeats of a case are one: {name}" + (f", passing at {passing:g}" if passing != 1 else "")
        return self._derived(lambda: analysis.repeats.reduce_repeats(self._stream(), name, passing), note)

    def where(self, expression: str) -> Results:
        """The same results with those trials only for which an expression holds.

        It may name factors, agent, case, slice, cluster, repeat, and metadata of cases: "model == 'small' and
        metadata.src != 'web'".
        """
        note = f"only where {analysis.selection.as_asked(expression)}"
        if self.aims and self.aims.slices_by_output:
            note = "; ".join([note, *self.aims.slice_notes(analysis.selection.names_in(expression))])
        return self._derived(lambda: analysis.selection.selected(self._stream(), expression), note)

    def _derived(self, load: Callable[[], Iterator[TrialResult]], note: str) -> Results:
        """Results of the same run with other trials, and a note that says which."""
        return Results(
            load,
            run_id=self.run_id,
            study=self.study,
            status=self.status,
            counts=self.counts,
            notes=(*self.notes, note),
            store=self.store,
            spent=self.spent_by_model,
            aims=self.aims,
            origin=self.origin,
            look=self.look,
            background=self._background,
            conditions=self._conditions,
            name=self.name,
            live=self.live,
        )

    def gate(
        self,
        *,
        min: Mapping[str, float] | None = None,
        max: Mapping[str, float] | None = None,
        no_worse_than: Sequence[tuple[Results, str, float]] = (),
        where: str = "",
        level: float = 0.95,
    ) -> analysis.gates.GateResult:
        """Whether the results meet demands with confidence, as `peira gate` says it.

        `min` and `max` are limits of means by score; `no_worse_than` are other results, a score, and the
        margin by which it may be worse. `where` asks about a part of the trials (see `where`), of the other
        results too. The bounds are one-sided at `level`; `found.met` is the answer.
        """
        gates = analysis.gates
        if not 0.5 < level < 1:
            raise Invalid(f"level: must lie between 0.5 and 1, not {level:g}")
        demands: list[Any] = [gates.Bound(score, limit, "min") for score, limit in (min or {}).items()]
        demands += [gates.Bound(score, limit, "max") for score, limit in (max or {}).items()]
        for other, score, margin in no_worse_than:
            there = (other.where(where) if where else other).trials
            demands.append(gates.NoWorse(other.run_id, there, score, margin))
        if not demands:
            raise Invalid("name at least one demand: min, max or no_worse_than")
        found = gates.judge((self.where(where) if where else self).trials, demands, level)
        if not where:
            return found
        asked = analysis.selection.as_asked(where)
        return gates.GateResult(
            tuple(replace(check, demand=f"{check.demand} where {asked}") for check in found.checks)
        )

    def compare(
        self,
        by: str | Results | Sequence[Results],
        a: Json = None,
        b: Json = None,
        *,
        score: str | None = None,
        slice: str | None = None,
        baseline: Json = None,
        correction: analysis.family.Correction | None = "declared",
        level: float = 0.95,
        margin: float | None = None,
        paired: bool | None = None,
        test: str = "",
        effect: str = "",
        interval: str = "",
        missing: analysis.imputation.Missing = "ended",
    ) -> analysis.comparison.ComparisonTable:
        """Compare levels of a factor (or "agent"), or these results with those of other runs.

        Paired by case wherever both sides have the case. Two levels `a` and `b`; or all with a `baseline`; or
        every pair, as one family. `margin` adds tests of equivalence and non-inferiority. `test`, `effect`
        and `interval` name methods other than those that fit the data. `missing` says what is done about lost
        trials: "ended" leaves them out and shows bounds, "impute" imputes them (right if they are missing at
        random, given what their cases and conditions scored otherwise), "worst" counts them as lowest.

        Of a stream, whose jobs go on arriving, levels are compared by confidence sequences that are valid at
        every look, weighted by the probabilities with which arms were drawn.
        """
        if slice is not None and self.aims and slice in self.aims.slices:
            inside = self.where(slice)
            others = [by] if isinstance(by, Results) else [] if isinstance(by, str) else [*by]
            by = [one.where(slice) for one in others] if others else by
            return inside.compare(
                by,
                a,
                b,
                score=score,
                baseline=baseline,
                correction=correction,
                level=level,
                margin=margin,
                paired=paired,
                test=test,
                effect=effect,
                interval=interval,
                missing=missing,
            )
        compare, wish = (
            analysis.contrasts,
            analysis.contrasts.ComparisonOptions(level, margin, correction, paired, test),
        )
        declared = self.aims.correction(by, score) if self.aims and isinstance(by, str) else ""
        wish = replace(wish, effect=effect, interval=interval, declared=declared, missing=missing)
        if not isinstance(by, str):
            runs = [self, *([by] if isinstance(by, Results) else by)]
            labels = [one.label for one in runs]
            notes = tuple(dict.fromkeys(note for one in runs for note in one.notes))
            streams = [one._stream() for one in runs]
            found = compare.compare_runs(streams, labels, score, slice, wish, notes)
        elif self.live is not None and self.live.compares:
            trials = self._stream() if slice is None else (t for t in self._stream() if t.slice == slice)
            found = analysis.live.compare_live(trials, self.live, by, a, b, score, baseline, wish, self.notes)
        else:
            found = compare.compare_levels(self._stream(), by, a, b, score, slice, baseline, wish, self.notes)
        if self.live is not None and self.live.compares and isinstance(by, str):
            return found  # what is compared was declared with the stream
        return replace(found, notes=(*found.notes, *self._undeclared([found.by], found.score)))

    def effects(
        self, *factors: str, score: str | None = None, level: float = 0.95, order: int = 2, formula: str = ""
    ) -> analysis.factor_effects.Effects:
        """Main effects and interactions of up to `order` factors, with intervals.

        Without names, of all factors. `formula` states the terms of the model ("a + b + a:b"). Two-level
        factors are compared by the same estimator as in `compare`; terms with more levels are tested by
        Hotelling's T-squared. Factors without a declared hypothesis are noted as exploratory; the formula
        that the design was made for is named.
        """
        found = analysis.factor_effects.effects(
            self._stream(), factors, score, level, order, self.notes, formula
        )
        names = [one.term for one in found.tests if " x " not in one.term]
        planned = self.aims.formula if self.aims and not (formula or factors) else ""
        made_for = (
            [f"the design was made for the model {planned}, which formula= asks for"] if planned else []
        )
        return replace(found, notes=(*found.notes, *made_for, *self._undeclared(names, found.score)))

    def marginal_means(
        self,
        *factors: str,
        at: Mapping[str, Json | Sequence[Json]] | None = None,
        within: Sequence[str] = (),
        baseline: Json = None,
        interaction: bool = False,
        correction: str | None = "holm",
        score: str | None = None,
        level: float = 0.95,
    ) -> analysis.marginal_means.MarginalMeans:
        """Means over a grid of levels of these factors, adjusted in the model of the design, and contrasts.

        `at` holds factors at given levels; all others are averaged over with equal weights. Rows are compared
        with those at the `baseline` level of the first factor, or every two, with the levels of the factors
        in `within` held equal; `interaction` asks for differences of differences. All contrasts are one
        family, adjusted by `correction`: holm, bh, bonferroni, tukey or dunnett (largest t), or None.
        """
        query = analysis.marginal_means.GridQuery(
            factors, at or {}, tuple(within), baseline, interaction, correction, level
        )
        return analysis.marginal_means.marginal_means(self._stream(), query, score, self.notes)

    def _undeclared(self, factors: Sequence[str], score: str) -> list[str]:
        """The note that effects without a declared hypothesis are exploratory."""
        aims = self.aims
        names = [name for name in factors if aims is not None and not aims.declares(name, score)]
        return [f"exploratory: the study declares no hypothesis about {', '.join(names)}"] if names else []

    def anova(
        self, *factors: str, score: str | None = None, type: Literal[2, 3] = 2, order: int = 2
    ) -> analysis.anova.Anova:
        """The classical analysis of variance with sums of squares of type II or III.

        Cases are blocks where all factors vary within cases. Without names, all factors are included. The F
        test assumes homogeneous variances; `effects` does not.
        """
        return analysis.anova.anova(self._stream(), factors, score, type, order, self.notes)

    def mixed(
        self,
        *factors: str,
        score: str | None = None,
        kind: analysis.mixed_models.Kind = "linear",
        level: float = 0.95,
        random: Sequence[str] = (),
    ) -> analysis.factor_effects.Effects:
        """Effects by a mixed model with cases as a random effect.

        `kind` is linear (with the factors in `random` as further random effects) or, for yes/no scores,
        logistic (effects for a given case) or marginal (effects for the average case).
        """
        return analysis.mixed_models.mixed(self._stream(), factors, score, kind, level, self.notes, random)

    def strata(self, *factors: str, score: str | None = None, order: int = 2) -> analysis.split_plots.Strata:
        """Split-plot analysis: whole-plot factors are tested against plots, others within.

        For designs with whole plots (hard-to-change factors), where `effects` would overstate the evidence.
        """
        return analysis.split_plots.strata(self._stream(), factors, score, order, self.notes)

    def surface(
        self, *factors: str, score: str | None = None, level: float = 0.95, lowest: bool = False
    ) -> analysis.surface.Surface:
        """The score as a second-order response surface of numeric factors, and its optimum.

        Without names, of all numeric factors that vary; each needs three or more values. `lowest` searches
        for the minimum. The result includes the lack-of-fit test and a range for the optimum.
        """
        return analysis.surface.surface(self._stream(), factors, score, level, lowest, self.notes)

    def leaderboard(
        self,
        *by: str,
        score: str | None = None,
        level: float = 0.95,
        lowest_first: bool = False,
        missing: analysis.imputation.Missing = "ended",
        others: Sequence[Results] = (),
    ) -> analysis.leaderboard.Leaderboard:
        """Entries (of agent and factors) with intervals of means and ranks, and which differ.

        Without names, entries are all combinations of the agent and the varying factors. With the results of
        `others`, each run is an entry of its own (with `by`, for each level of these), compared on the cases
        that both have, all as one family. `lowest_first` ranks low scores best. Includes cost, time and the
        probability of being on the Pareto front. `missing` is that of `compare`; imputed, means and ranks
        include the uncertainty of what was lost.
        """
        rank = analysis.leaderboard.leaderboard
        if not others:
            return rank(self._stream(), by, score, level, lowest_first, self.notes, missing)
        runs = [self, *others]
        if len({one.run_id for one in runs}) < len(runs):
            raise Invalid("runs: each can be ranked once")
        labels = [one.label for one in runs]
        streams = [one._stream() for one in runs]
        notes = tuple(dict.fromkeys(note for one in runs for note in one.notes))
        trials = analysis.leaderboard.with_runs(streams, labels)
        return rank(trials, (analysis.leaderboard.RUN, *by), score, level, lowest_first, notes, missing)

    def worth(
        self,
        by: str,
        more: int,
        *,
        score: str | None = None,
        lowest: bool = False,
        per_point: float | None = None,
        level: float = 0.95,
    ) -> analysis.worth.Worth:
        """What it is worth to run so many more cases before choosing a level of `by`.

        Forecasts the width of intervals, whether differences will be clear, whether another level will be
        chosen, and by how much the choice is expected to improve (the expected value of sample information).
        `per_point` are the US dollars that a score higher by 1 is worth; the gain is then set against the
        cost of the cases. `lowest` says that less is better.
        """
        query = analysis.worth.WorthQuery(more, lowest, per_point, level)
        return analysis.worth.worth(self._stream(), by, query, score, self.notes)

    def standings(
        self,
        *,
        level: float = 0.95,
        method: str = "covariance",
        elo: bool = False,
        length_controlled: bool = False,
    ) -> analysis.tournament.Standings:
        """The standings of a contest (see `contest`): strengths with intervals, and wins.

        By the Bradley-Terry model with intervals clustered by case; `method` is "covariance" or "bootstrap",
        `elo` adds Elo ratings. `length_controlled` gives strengths and win rates at equal lengths of answers,
        for judges that prefer long ones. Raises Invalid if these are not the results of a contest.
        """
        return analysis.tournament.standings(
            self._stream(), level, method, elo, self.notes, length_controlled
        )

    def agreement(
        self,
        labels: analysis.labels.Labels,
        *,
        score: str | None = None,
        cut: float | None = None,
        level: float = 0.95,
    ) -> analysis.agreement.Agreement:
        """Agreement of a judge with human labels.

        `labels` is a file (one row per labelled output), a field of the cases' metadata, or a mapping of
        trial ids to labels; `cut` turns numbers into yes/no.
        """
        return analysis.agreement.agreement(self._rated(labels, score, cut), level)

    def people(self, score: str) -> dict[str, float | str]:
        """The labels that people gave by a score of the evaluator `person`, by trial id, on its own scale.

        `agreement`, `biases` and `corrected` take them as `labels`.
        """
        return analysis.labels.labels_of_people(self.trials, score)

    def raters(self, score: str, *, level: float = 0.95) -> analysis.raters.RaterAgreement:
        """How far the raters of a score of the evaluator `person` agree: Krippendorff's alpha."""
        return analysis.raters.rater_agreement(self.trials, score, level)

    def biases(
        self, *, labels: analysis.labels.Labels | None = None, score: str | None = None, level: float = 0.95
    ) -> analysis.biases.Biases:
        """Biases of a judge towards the position of an answer in a pair, and towards its length.

        With labels, a preference for longer answers can be separated from their quality.
        """
        plain = labels is None and analysis.tournament.is_contest(self.trials)
        return analysis.biases.biases(self.trials, None if plain else self._rated(labels or {}, score), level)

    def corrected(
        self,
        labels: analysis.labels.Labels,
        *by: str,
        score: str | None = None,
        cut: float | None = None,
        method: str = "prediction-powered",
        level: float = 0.95,
    ) -> analysis.corrected_means.Corrected:
        """Means of a judge's score, by factors, corrected by the outputs that people labelled.

        `method` is "prediction-powered", or "rogan-gladen" for yes/no scores and labels; `labels`, `score`
        and `cut` are as in `agreement`. Valid if the labelled outputs are a random sample.
        """
        rated = self._rated(labels, score, cut)
        return analysis.corrected_means.corrected(rated, by, method, level, self.notes)

    def _rated(
        self, labels: analysis.labels.Labels, score: str | None, cut: float | None = None
    ) -> analysis.labels.Ratings:
        """The ratings of a score beside the labels."""
        known = analysis.labels.labels_of(self.trials, labels)
        return analysis.labels.ratings(self.trials, known, score, cut)

    def quantiles(
        self, score: str = "took", *by: str, q: Sequence[float] = (0.5, 0.9, 0.99), level: float = 0.95
    ) -> analysis.quantiles.Quantiles:
        """Quantiles of a measure (seconds, a score, a metric) with intervals.

        Distribution-free intervals from order statistics, clustered by case; `q` are the quantiles between 0
        and 1.
        """
        return analysis.quantiles.quantiles(self._stream(), score, by, q, level, self.notes)

    def ratio(
        self, top: str, bottom: str, *by: str, method: str = "fieller", level: float = 0.95
    ) -> analysis.ratios.Ratios:
        """The ratio of two totals by Fieller's theorem or the delta method.

        For example `ratio("cost", "match")` is the cost per success. Fieller's interval is unbounded if the
        denominator does not differ significantly from 0. `method` is "fieller" or "delta".
        """
        return analysis.ratios.ratio(self._stream(), top, bottom, by, method, level, self.notes)

    def reliability(self, *by: str, level: float = 0.95) -> analysis.reliability.Reliability:
        """The share of failed trials; where none failed, its upper bound by the rule of three.

        By factors; without names, over all trials. Anchors and trials that have not ended are left out.
        """
        return analysis.reliability.reliability(self._stream(), by, level, self.notes)

    def confusion(self, *, level: float = 0.95) -> analysis.confusion.Confusion:
        """What was expected against what was answered, with recall and precision of each label."""
        return analysis.confusion.confusion(self._stream(), level, self.notes)

    def slices(
        self, by: str = "slice", *, score: str | None = None, level: float = 0.95
    ) -> analysis.slices.Slices:
        """Means of slices with partial pooling: small slices are shrunk towards the overall mean.

        `by` is "slice", or any factor or attribute. With fewer than three slices nothing is pooled. Slices
        that the study declares may overlap, and are not pooled either.
        """
        if by == "slice" and self.aims and self.aims.slices:
            names = tuple(self.aims.slices)
            notes = (*self.aims.slice_notes(names), *self.notes)
            return analysis.slices.declared_slices(self._stream(), names, score, level, notes)
        return analysis.slices.slices(self._stream(), by, score, level, self.notes)

    def hypotheses(self) -> analysis.hypotheses.Findings:
        """The verdicts on the declared hypotheses, each tested as its analysis plan says.

        Hypotheses that a stopping rule monitored have the rule's verdict, which is valid at every look.
        """
        found = analysis.hypotheses.decide(self._stream(), self.aims or Aims(), self.notes)
        return analysis.hypotheses.with_sequential_verdicts(found, self.look)

    def report(self, path: str | PathLike[str], *, level: float = 0.95, trials: int = 200) -> Path:
        """Write the report of this run and return its path; the suffix selects the format.

        Formats: .html (one self-contained file), .md, .tex, .json, and .pdf if there is a browser to print
        it. `trials` is the number of trials shown in full.
        """
        file = Path(path)
        ending = file.suffix[1:].lower()
        registry.make("report", ending, results=self, path=file, level=level, trials=trials)
        return file

    def plot(
        self, kind: str, path: str | PathLike[str], *, score: str | None = None, level: float = 0.95
    ) -> Path:
        """Draw one of the report's plots into an .svg or .png file and return its path.

        `peira list plots` names the kinds, and says what each shows.
        """
        return Path(registry.make("plot", kind, results=self, path=Path(path), score=score, level=level))

    def frame(self) -> Any:
        """A pandas DataFrame with one row per trial and the columns of `to_csv`.

        Loads all trials. Raises Invalid if pandas is not installed.
        """
        return analysis.rows.to_frame(self.trials, self.run_id)

    def to_csv(self, path: str | PathLike[str]) -> None:
        """Write one row per trial; the columns are described in `peira.results.rows`.

        Trials are streamed and not held in memory.
        """
        analysis.rows.write_csv(self.shown().stream(), self.run_id, Path(path))

    def to_jsonl(self, path: str | PathLike[str]) -> None:
        """Write one JSON object per trial with everything that is known of it.

        Trials are streamed and not held in memory.
        """
        analysis.rows.write_jsonl(self.shown().stream(), self.run_id, Path(path))

    def export(
        self,
        path: str | PathLike[str],
        format: str | None = None,
        *,
        force: bool = False,
        raw: bool = False,
    ) -> Path:
        """Write the results for other tools; the format is named, or guessed from the path.

        Keys of models that stand in answers are written as [hidden], unless `raw`.

        Formats: csv, csv-long, excel, jsonl, parquet, sqlite; the folders artifact, hf and attachments (the
        files that agents attached); mlflow and wandb; transcripts as openai and inspect have them; and those
        of plug-ins. An existing export of the same
        format is replaced atomically, anything else only with `force`. The same results give the same bytes.
        """
        return analysis.export_formats.export(self if raw else self.shown(), path, format, force)

    def shown(self) -> Results:
        """The same results as they may be shown: texts of their trials without keys of the environment, and
        without those that were marked in outputs when they were recorded."""
        other = copy(self)
        for cached in ("trials", "_means"):
            other.__dict__.pop(cached, None)
        other._load = lambda: map(shown_trial, self._stream())
        return other

    def stream(self) -> Iterable[TrialResult]:
        """Iterate over the trials without holding them, unless `trials` was loaded already."""
        return self._stream()

    def _stream(self) -> Iterable[TrialResult]:
        """The loaded trials, or else a new pass over the stored ones."""
        return self.trials if self._trials_read else self._load()

    def transcript(self, trial: str | TrialResult) -> Transcript:
        """What happened in a trial, in order: messages, tools, steps; by the trial or the start of its id."""
        id = trial if isinstance(trial, str) else trial.id
        found = [one.id for one in self if one.id.startswith(id)]
        if len(found) != 1 or self.background is None:
            raise Unknown(f"no trial {id!r} in these results" if not found else f"several trials {id!r}")
        return self.background.transcripts(found)[found[0]]

    def __await__(self) -> Generator[Any, None, Results]:
        """Itself: `await run(study)` is allowed, although only `run_async` lets other tasks go on."""
        yield from ()
        return self

    def __len__(self) -> int:
        return len(self.trials)

    def __iter__(self) -> Iterator[TrialResult]:
        return iter(self.trials)

    def __repr__(self) -> str:
        return f"<Results of {self.title}>"

    @cached_property
    def _means(self) -> analysis.value.Table:
        """The table that is shown with the results."""
        return self.table()

    def grids(self) -> Sequence[TextGrid]:
        """The table of means by everything that varies."""
        return self._means.grids()

    def plain_tables(self, width: int | None = None) -> str:
        """The table of means below an empty line."""
        return f"\n{self._means.plain_tables(width)}"

    @property
    def remarks(self) -> Sequence[str]:
        """What must be known beside the means."""
        return self._means.remarks

    def document(self) -> dict[str, Any]:
        """The run, its status and counts, the notes about all of it, and the table of means."""
        return {
            "run": self.run_id,
            "name": self.name or None,
            "study": self.study,
            "status": self.status,
            "counts": dict(self.counts),
            "notes": self.notes,
            "table": self._means.document(),
        }

    @property
    def title(self) -> str:
        """Study, run, status and counts, as one line."""
        counts = ", ".join(f"{n} {state}" for state, n in self.counts.items() if n) or "no trials"
        return f"{self.study}, run {short(self.run_id)}, {self.status}: {counts}"


def _collect_anchors(trials: Iterable[TrialResult], anchors: list[TrialResult]) -> Iterator[TrialResult]:
    """Pass the trials through and collect the anchors among them."""
    for trial in trials:
        if trial.anchor:
            anchors.append(trial)
        yield trial
