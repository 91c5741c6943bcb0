"""The methods paragraphs: design, estimates, tests, corrections and software."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version

from peira.analysis.compare.hypotheses import Finding
from peira.analysis.compare.live import LiveDesign
from peira.analysis.results import Results
from peira.core.ids import Json
from peira.core.text.words import counted
from peira.report.labels import listed
from peira.report.value import Scored
from peira.results.background import Background
from peira.results.trials import TrialResult

REPORTED = ("numpy", "scipy", "statsmodels", "matplotlib")
"""The packages whose versions are reported."""
CORRECTIONS = {
    "holm": "Holm's correction",
    "bh": "the correction of Benjamini and Hochberg",
    "bonferroni": "Bonferroni's correction",
    "dunnett": "Dunnett's comparison with a control",
    "tukey": "Tukey's comparison of all pairs",
}
"""The corrections for multiplicity, as text."""
ORDERS = {
    "random": "in random order",
    "interleaved": "in interleaved rounds of all conditions",
    "given": "in the order given (not randomised)",
}
"""The orders of execution, as text."""


def methods(
    results: Results,
    trials: Sequence[TrialResult],
    findings: Sequence[Finding],
    scores: Sequence[Scored],
    level: float,
) -> tuple[str, ...]:
    """One paragraph each on design, estimates, hypotheses and software; none without trials."""
    if not trials:
        return ()
    live = results.live if results.live is not None and results.live.compares else None
    parts = (
        _design(results, trials) if live is None else _assignment(results, live, trials),
        _estimates(scores, level),
        _tests(findings) if live is None else _sequences(),
        _software(results),
    )
    return tuple(" ".join(part) for part in map(list, parts) if part)


def _design(results: Results, trials: Sequence[TrialResult]) -> Iterator[str]:
    """Sentences on conditions, cases, repeats, order and evaluators."""
    conditions = {(trial.agent, repr(sorted(trial.condition.items(), key=str))) for trial in trials}
    cases, repeats = {trial.case_id for trial in trials}, max(trial.repeat for trial in trials) + 1
    sizes = [counted(len(conditions), "condition"), counted(len(cases), "case")]
    yield (
        f"The study {results.study} crossed {listed(sizes)}, {_times(repeats)} each: "
        f"{counted(len(trials), 'trial')}."
    )
    clusters = {trial.cluster for trial in trials if trial.cluster is not None}
    if clusters:
        yield f"The cases form {counted(len(clusters), 'cluster')}."
    known = results.background
    if known is None:
        return
    manifest = known.manifest
    snapshot: Mapping[str, Json] = manifest.snapshot if isinstance(manifest.snapshot, Mapping) else {}
    names = list(dict.fromkeys(name for trial in trials for name in trial.condition))
    if names:
        yield f"The design is {_design_name(snapshot)} over {listed(names)}."
    imported = sum(trial.imported for trial in trials)
    if imported:
        yield (
            f"{'All' if imported == len(trials) else f'{imported:,}'} of the outputs were made elsewhere and "
            "imported: the order in which they were made, their seeds and the settings of the models are not "
            "known here."
        )
    if imported < len(trials):
        which = "The other trials" if imported else "Trials"
        yield f"{which} were run {ORDERS.get(manifest.order, manifest.order)} (seed {manifest.seed})."
    if models := models_of(results, trials):
        yield f"The outputs are by {listed(models)}."
    if manifest.transform:
        yield f"Answers were found in the outputs by {manifest.transform.name}."
    if manifest.evaluators:
        yield f"Outputs were scored by {listed([part.name for part in manifest.evaluators])}."
    if manifest.anchors:
        yield (
            f"The first trial was run again {_times(manifest.anchors)} through the run as "
            "an anchor; anchors are in no mean."
        )


def _assignment(results: Results, live: LiveDesign, trials: Sequence[TrialResult]) -> Iterator[str]:
    """Sentences on how the jobs of a stream got their conditions."""
    jobs = counted(len({trial.case_id for trial in trials}), "job")
    if live.assign == "all":
        yield (
            f"Each job of the stream {results.study} was done under {len(live.arms)} conditions, the first "
            f"of which answered: {jobs}."
        )
        return
    followed = "" if live.assign == "random" else f", which followed the evidence ({live.assign})"
    yield (
        f"Each job of the stream {results.study} was given one of {len(live.arms)} conditions at random, "
        f"with recorded probabilities{followed}: {jobs}."
    )


def _sequences() -> Iterator[str]:
    """Sentences on comparisons that are valid at every look."""
    yield (
        "Levels were compared by confidence sequences of the mean effect on the jobs so far (empirical "
        "Bernstein; asymptotic for scores without limits), which hold at every look. Where conditions were "
        "drawn, jobs are weighted by the inverse of the recorded probabilities, augmented by predictions."
    )


def models_of(results: Results, trials: Sequence[TrialResult]) -> list[str]:
    """The names of the models behind the outputs, as far as they are recorded: as served, else as asked."""
    served = dict.fromkeys(
        name for trial in trials for name in trial.about.get("served", "").split(", ") if name
    )
    if served:
        return list(served)
    told = dict.fromkeys(name for trial in trials if (name := trial.about.get("model")))
    return list(told) or [one.model for one in results.spent_by_model]


def _times(n: int) -> str:
    """How often, as text."""
    return {1: "once", 2: "twice"}.get(n, f"{n:,} times")


def _design_name(snapshot: Mapping[str, Json]) -> str:
    """The name of the design, as text."""
    design = snapshot.get("design")
    name = (
        design if isinstance(design, str) else design.get("name", "") if isinstance(design, Mapping) else ""
    )
    return str(name or "full_factorial").replace("_", " ")


def _estimates(scores: Sequence[Scored], level: float) -> Iterator[str]:
    """Sentences on means and effects."""
    ways = {row.method for one in scores if one.table for row in one.table.body if row.method}
    if not ways:
        return
    yield (
        f"Means stand with {100 * level:g}% intervals ({', '.join(sorted(ways))}); the unit "
        "of evidence is the case, or the cluster of cases, and repeats of a case are not "
        "counted as cases."
    )
    found = [one.effects for one in scores if one.effects is not None and one.effects.effects]
    if found:
        how = (
            "within cases, each case its own control"
            if found[0].paired
            else "between cases, with cluster-robust errors"
        )
        yield (
            "Effects and interactions were estimated by least squares with sum-to-zero "
            f"coding {how}, with Student's t on {found[0].units:,} independent units; terms "
            f"of several levels were tested by Hotelling's T\N{SUPERSCRIPT TWO}."
        )
        yield "These p-values are not corrected for multiplicity."
    yield "Failed trials are in no mean; worst-case and best-case bounds are given beside it."


def _tests(findings: Sequence[Finding]) -> Iterator[str]:
    """Sentences on the declared hypotheses."""
    if not findings:
        yield "No hypothesis was declared before the run; everything is exploratory."
        return
    many = "One hypothesis was" if len(findings) == 1 else f"{len(findings):,} hypotheses were"
    yield f"{many} declared before the run and tested as declared."
    for one in findings:
        tests = list(dict.fromkeys(c.test for c in one.contrasts if c.test))
        corrected = CORRECTIONS.get(one.correction, "no correction")
        plan = f" of the plan {one.plan}" if one.plan else ""
        yield f"{one.hypothesis}: {', '.join(tests) or 'not tested'}, alpha {one.alpha:g}, {corrected}{plan}."


def _software(results: Results) -> Iterator[str]:
    """The sentence on software versions."""
    names = [f"{name} {number}" for name, number in versions(results.background)]
    yield f"Run and analysed with {listed(names)}."


def versions(known: Background | None) -> tuple[tuple[str, str], ...]:
    """The software versions of the run; if unknown, that of the analysis."""
    if known is None or known.provenance is None:
        return (("peira", version("peira")),)
    provenance = known.provenance
    some = [(name, provenance.packages[name]) for name in REPORTED if name in provenance.packages]
    return (("peira", provenance.peira), ("Python", provenance.python), *some)
