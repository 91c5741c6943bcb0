"""peira runs experiments on language models and AI agents.

Stop anywhere; run again. Nothing finished is lost, nothing recorded is paid for twice, and no number is
shown without its uncertainty.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from peira.core.door import open_late

if TYPE_CHECKING:
    from peira.analysis.chaining import cases_from
    from peira.analysis.contest import contest
    from peira.analysis.results import Results
    from peira.api.answers import bundle_import
    from peira.api.bundles import bundle_export
    from peira.api.comparing import diff
    from peira.api.importing import import_outputs
    from peira.api.planning import estimate, plan
    from peira.api.verbs import evaluate, generate, open, run, submit, transform
    from peira.api.working import bundle_work
    from peira.core.asking import ask, ask_async
    from peira.core.context import current_trial
    from peira.core.models import Reply
    from peira.core.steps import step
    from peira.core.verdicts import NoVerdict
    from peira.errors import PeiraError
    from peira.evaluators import exact, includes, judge, match, numeric, pairwise, panel, regex
    from peira.spec.aims import AnalysisPlan, Hypothesis, Outcome
    from peira.spec.benchmark import Benchmark
    from peira.spec.case import Case
    from peira.spec.constraints import Constraint
    from peira.spec.decorator import study
    from peira.spec.factors import Block, Design, Factor, Level
    from peira.spec.limits import Budget, Policy, Storage
    from peira.spec.study import Study

__all__ = [
    "AnalysisPlan",
    "Benchmark",
    "Block",
    "Budget",
    "Case",
    "Constraint",
    "Design",
    "Factor",
    "Hypothesis",
    "Level",
    "NoVerdict",
    "Outcome",
    "PeiraError",
    "Policy",
    "Reply",
    "Results",
    "Storage",
    "Study",
    "ask",
    "ask_async",
    "bundle_export",
    "bundle_import",
    "bundle_work",
    "cases_from",
    "contest",
    "current_trial",
    "diff",
    "estimate",
    "evaluate",
    "exact",
    "generate",
    "import_outputs",
    "includes",
    "judge",
    "match",
    "numeric",
    "open",
    "pairwise",
    "panel",
    "plan",
    "regex",
    "run",
    "step",
    "study",
    "submit",
    "transform",
]

_ROOMS = {
    "peira.analysis.chaining": ("cases_from",),
    "peira.analysis.contest": ("contest",),
    "peira.analysis.results": ("Results",),
    "peira.api.answers": ("bundle_import",),
    "peira.api.bundles": ("bundle_export",),
    "peira.api.comparing": ("diff",),
    "peira.api.importing": ("import_outputs",),
    "peira.api.planning": ("estimate", "plan"),
    "peira.api.verbs": ("evaluate", "generate", "open", "run", "submit", "transform"),
    "peira.api.working": ("bundle_work",),
    "peira.core.asking": ("ask", "ask_async"),
    "peira.core.context": ("current_trial",),
    "peira.core.models": ("Reply",),
    "peira.core.steps": ("step",),
    "peira.core.verdicts": ("NoVerdict",),
    "peira.errors": ("PeiraError",),
    "peira.evaluators": ("exact", "includes", "judge", "match", "numeric", "pairwise", "panel", "regex"),
    "peira.spec.aims": ("AnalysisPlan", "Hypothesis", "Outcome"),
    "peira.spec.benchmark": ("Benchmark",),
    "peira.spec.case": ("Case",),
    "peira.spec.constraints": ("Constraint",),
    "peira.spec.decorator": ("study",),
    "peira.spec.factors": ("Block", "Design", "Factor", "Level"),
    "peira.spec.limits": ("Budget", "Policy", "Storage"),
    "peira.spec.study": ("Study",),
}
open_late(__name__, _ROOMS)
