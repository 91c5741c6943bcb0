"""peira runs experiments on language models and AI agents.

Stop anywhere; run again. Nothing finished is lost, nothing recorded is paid for twice, and no number is
shown without its uncertainty.
"""

from peira.analysis.results import Results
from peira.api import evaluate, generate, open, plan, run, submit
from peira.core.asking import ask, ask_async
from peira.core.context import current_trial
from peira.core.models import Reply
from peira.core.steps import step
from peira.errors import PeiraError
from peira.evaluators import exact, includes, match, numeric, regex
from peira.spec.aims import AnalysisPlan, Hypothesis, Outcome
from peira.spec.case import Case
from peira.spec.constraints import Constraint
from peira.spec.decorator import study
from peira.spec.factors import Block, Design, Factor, Level
from peira.spec.limits import Budget, Policy, Storage
from peira.spec.study import Study

__all__ = [
    "AnalysisPlan",
    "Block",
    "Budget",
    "Case",
    "Constraint",
    "Design",
    "Factor",
    "Hypothesis",
    "Level",
    "Outcome",
    "PeiraError",
    "Policy",
    "Reply",
    "Results",
    "Storage",
    "Study",
    "ask",
    "ask_async",
    "current_trial",
    "evaluate",
    "exact",
    "generate",
    "includes",
    "match",
    "numeric",
    "open",
    "plan",
    "regex",
    "run",
    "step",
    "study",
    "submit",
]
