"""Threats to validity, derived from the facts of the run, gravest first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from peira.analysis.compare.hypotheses import Finding
from peira.analysis.compare.sensitivity import Sensitivity
from peira.analysis.results import Results
from peira.analysis.table.groups import LOST
from peira.core.ids import Json
from peira.core.log.events import State, Status
from peira.core.text.words import counted
from peira.report.value import PlotPoint, Scored, Threat
from peira.results.background import Background
from peira.results.trials import FAILED, TrialResult, end_counts

FEW_CASES, MUCH_LOST = 30, 0.05


@dataclass(frozen=True)
class ThreatEvidence:
    """The inputs from which threats are derived."""

    results: Results
    trials: Sequence[TrialResult]
    findings: Sequence[Finding]
    scores: Sequence[Scored]
    drift: Sequence[str]
    curves: Sequence[Sensitivity] = ()


def threats(evidence: ThreatEvidence) -> tuple[Threat, ...]:
    """All threats to validity, grave ones first; none without trials."""
    if not evidence.trials:
        return ()
    found = [
        *_of_sample(evidence),
        *_of_losses(evidence),
        *_of_analysis(evidence),
        *_of_judges(evidence),
        *_of_origin(evidence),
    ]
    if (known := evidence.results.background) is not None:
        found += [*_of_design(known, evidence), *_of_measurement(known)]
    else:
        found.append(
            Threat(
                "Unknown origin",
                "These results were not read from a store: how they came about is not known.",
            )
        )
    return tuple(sorted(found, key=lambda one: not one.grave))


def _of_sample(evidence: ThreatEvidence) -> Iterator[Threat]:
    """Threats of the sample: few cases, no repeats, no clusters."""
    units = {trial.unit for trial in evidence.trials}
    if len(units) < FEW_CASES:
        what = "cluster" if any(kind == "cluster" for kind, _ in units) else "case"
        text = (
            f"There are {counted(len(units), what)}. Intervals allow for that only as far "
            "as their assumptions hold; other cases may tell another story."
        )
        yield Threat("Few cases", text, len(units) < 10)
    if max(trial.repeat for trial in evidence.trials) == 0 and evidence.results.live is None:
        yield Threat(
            "No repeats",
            "Every case was tried once under each condition: how much a model differs "
            "from itself is not known apart from how cases differ.",
        )
    if len({trial.case_id for trial in evidence.trials}) > 1 and not any(
        trial.cluster for trial in evidence.trials
    ):
        yield Threat(
            "Cases taken as independent",
            "No clusters are declared. If cases are related (one document, one author, "
            "one template), intervals are too narrow.",
        )


def _of_losses(evidence: ThreatEvidence) -> Iterator[Threat]:
    """Threats of missing data: failures, and trials that have not ended."""
    total = len(evidence.trials)
    ends = end_counts(trial.state for trial in evidence.trials if trial.state in LOST)
    failed = sum(ends.values())
    scores = sum(
        s.state in FAILED for t in evidence.trials if t.state is State.succeeded for s in t.scores.values()
    )
    if failed or scores:
        what = [f"{counted(n, 'trial')} {word}" for word, n in ends.items()]
        what += [f"{counted(scores, 'score')} failed"] if scores else []
        text = (
            f"{', '.join(what)}: in no mean. If failing has to do with the "
            "answer, the means are biased; the bounds say by how much at most."
        )
        weak = [one for one in evidence.curves if one.overturnable]
        if weak:
            text += f" {' '.join(one.sentence for one in weak)}"
        yield Threat("Failures", text, bool(weak) or failed / total > MUCH_LOST)
    status = evidence.results.status
    left = end_counts(trial.state for trial in evidence.trials if trial.state not in LOST)
    if left:
        words = ", ".join(f"{n:,} {word}" for word, n in left.items())
        text = (
            f"Of {counted(total, 'trial')} {words} (the run is {status}): "
            "this is the picture so far. Looking before the end and stopping when it "
            "pleases makes false alarms more likely."
        )
        yield Threat("Not complete", text, True)
    elif evidence.results.live is not None:
        yield Threat("Jobs go on arriving", "Comparisons hold at every look, means of arms at one.")
    elif status not in (Status.completed, Status.failures, ""):
        yield Threat("Not complete", f"The run is {status}.", True)


def _of_analysis(evidence: ThreatEvidence) -> Iterator[Threat]:
    """Threats of the analysis: exploratory effects, drift."""
    points: list[PlotPoint] = [point for one in evidence.scores for point in one.points if point.zero]
    loose = [point for point in points if not point.declared]
    if loose and not evidence.findings:
        text = (
            f"No hypothesis was declared: all {counted(len(loose), 'effect')} shown are "
            "exploratory, and their p-values are not corrected for being many."
        )
        yield Threat("Exploratory", text, len(loose) > 1)
    elif loose:
        text = (
            f"Beside the hypotheses {counted(len(loose), 'effect')} are shown, with "
            "p-values that are not corrected for being many: they suggest, and do not "
            "confirm."
        )
        yield Threat("Exploratory effects", text)
    if any(line.partition(": it ")[2] for line in evidence.drift):
        yield Threat("Drift", "What was measured changed during the run: see the drift check.", True)


def _of_origin(evidence: ThreatEvidence) -> Iterator[Threat]:
    """Threats of reused trials and served models."""
    imported = sum(trial.imported for trial in evidence.trials)
    if imported:
        text = (
            f"{imported:,} of {counted(len(evidence.trials), 'output')} were made elsewhere and imported. In "
            "which order, when and with which settings is not recorded here, nor whether some were left out."
        )
        yield Threat("Imported outputs", text, True)
    reused = sum(trial.reused and not trial.imported for trial in evidence.trials)
    if reused:
        text = (
            f"{reused:,} of {counted(len(evidence.trials), 'trial')} were made by earlier runs. "
            "They are the same by everything that is part of a trial's identity; the time, "
            "the served model and the environment may differ."
        )
        yield Threat("Reused trials", text)
    yield from _of_commands(evidence)
    served = {name for trial in evidence.trials if (name := trial.about.get("served"))}
    if any(trial.metrics.get("calls") for trial in evidence.trials) or served:
        yield Threat(
            "Served models",
            "Models behind an interface may change without notice; the answers hold "
            "for those served at the time of the run.",
        )


def _of_commands(evidence: ThreatEvidence) -> Iterator[Threat]:
    """Threats of commands that ran unconfined, so that not all that they did is known."""
    loose = [trial.about["calls_known"] for trial in evidence.trials if trial.about.get("confined") == "no"]
    if loose:
        unknown = sum(known == "not recorded" for known in loose)
        calls = f"; the model calls of {unknown:,} are not recorded" if unknown else ""
        text = (
            f"{counted(len(loose), 'command')} ran unconfined{calls}. They could change other files and call "
            "models that no record shows: costs and counts of calls may be too low."
        )
        yield Threat("Unconfined commands", text, True)
    programs = {program for trial in evidence.trials if (program := trial.about.get("program"))}
    names = [program.split(" ")[0] for program in programs]
    if len(set(names)) < len(names):
        text = (
            "Trials were made by different versions of the same program, which has no part in their identity."
        )
        yield Threat("Another program", text)


def _of_judges(evidence: ThreatEvidence) -> Iterator[Threat]:
    """Threats of model judges."""
    scores = (score for trial in evidence.trials for score in trial.scores.values())
    judges = sorted({score.name for score in scores if score.metrics.get("calls")})
    if judges:
        yield Threat(
            "Judged by a model",
            f"{', '.join(judges)}: a model judges. Without labels by people its errors are not known, and "
            "they are in every number.",
            True,
        )


def _of_design(known: Background, evidence: ThreatEvidence) -> Iterator[Threat]:
    """Threats of the design: order, anchors, subsets, pre-registration, constraints."""
    manifest = known.manifest
    if manifest.order == "given":
        yield Threat(
            "Not randomised",
            "Trials were run in the order given: whatever changed during the run is "
            "mixed up with the conditions.",
            True,
        )
    if not manifest.anchors:
        yield Threat(
            "Drift not watched",
            "The study has no anchors, so a drift during the run would not have been seen.",
        )
    if manifest.where or manifest.limit is not None or manifest.picked:
        yield Threat("A part of the plan", "Only a part of the planned trials was asked for.")
    if not known.standing:
        yield Threat(
            "Not pre-registered",
            "No plan was frozen before the run: nothing shows that questions and "
            "analysis were chosen before the results.",
        )
    elif any("deviates" in line for line in known.standing):
        yield Threat("Deviates from the frozen plan", "See the deviations.", True)
    if manifest.refusals or manifest.refused:
        n = manifest.refusals or len(manifest.refused)
        yield Threat(
            "Combinations left out",
            f"Constraints rule out {counted(n, 'combination')}; nothing is known of these.",
        )


def _of_measurement(known: Background) -> Iterator[Threat]:
    """Threats of measurement: unconfined code, unseen dependencies, uncommitted changes."""
    loose = [part.name for part in known.manifest.evaluators if _unconfined(part.identity)]
    if loose:
        yield Threat(
            "Unconfined code",
            f"{', '.join(loose)} ran generated code without a sandbox: it could have "
            "changed what it was judged by.",
            True,
        )
    unseen = sorted({what for part in known.manifest.agents for what in part.unseen})
    if unseen:
        more = f" and {len(unseen) - 8} more" if len(unseen) > 8 else ""
        yield Threat(
            "Not part of identity",
            f"The agents depend on what a fingerprint cannot see: {', '.join(unseen[:8])}{more}.",
        )
    if known.provenance is not None and known.provenance.git_dirty:
        yield Threat(
            "Uncommitted changes",
            "The project had changes that were not committed; the run keeps the sources it used.",
        )


def _unconfined(identity: Json) -> bool:
    """Whether an evaluator's identity says that it runs code without a sandbox."""
    if isinstance(identity, Mapping):
        return identity.get("confined") is False or any(map(_unconfined, identity.values()))
    return isinstance(identity, (list, tuple)) and any(map(_unconfined, identity))
