"""peira runs experiments on language models and AI agents.

Stop anywhere; run again. Nothing finished is lost, nothing recorded is paid for twice, and no number is
shown without its uncertainty.
"""

from __future__ import annotations

from peira.core.lazy import lazy_imports

with lazy_imports(__name__):
    from peira.agents.command.agent import command as command
    from peira.agents.conversation.agent import conversation as conversation
    from peira.agents.conversation.users import script as script
    from peira.agents.conversation.users import simulated as simulated
    from peira.agents.graph import graph as graph
    from peira.agents.loop.agent import agent as agent
    from peira.agents.tools.mcp import mcp as mcp
    from peira.agents.tools.workspace import files as files
    from peira.agents.tools.workspace import python as python
    from peira.agents.tools.workspace import shell as shell
    from peira.analysis.ranking.contest import contest as contest
    from peira.analysis.results import Results as Results
    from peira.app.bundles.answers import bundle_import as bundle_import
    from peira.app.bundles.export import bundle_export as bundle_export
    from peira.app.bundles.work import bundle_work as bundle_work
    from peira.app.diff import diff as diff
    from peira.app.functions import evaluate as evaluate
    from peira.app.functions import generate as generate
    from peira.app.functions import open as open
    from peira.app.functions import run as run
    from peira.app.functions import run_async as run_async
    from peira.app.functions import submit as submit
    from peira.app.functions import transform as transform
    from peira.app.imports.outputs import import_outputs as import_outputs
    from peira.app.plan import estimate as estimate
    from peira.app.plan import plan as plan
    from peira.app.streams.host import serve as serve
    from peira.app.work.run import fanout as fanout
    from peira.core.ask import ask as ask
    from peira.core.ask import ask_async as ask_async
    from peira.core.context import current_trial as current_trial
    from peira.core.models import Output as Output
    from peira.core.models import Reply as Reply
    from peira.core.people.questions import ask_person as ask_person
    from peira.core.steps import step as step
    from peira.core.verdicts import NoVerdict as NoVerdict
    from peira.engine.streams.sessions import session as session
    from peira.errors import PeiraError as PeiraError
    from peira.evaluators import exact as exact
    from peira.evaluators import includes as includes
    from peira.evaluators import judge as judge
    from peira.evaluators import match as match
    from peira.evaluators import numeric as numeric
    from peira.evaluators import pairwise as pairwise
    from peira.evaluators import panel as panel
    from peira.evaluators import person as person
    from peira.evaluators import regex as regex
    from peira.results.cases import cases_from as cases_from
    from peira.spec.aims import AnalysisPlan as AnalysisPlan
    from peira.spec.aims import Hypothesis as Hypothesis
    from peira.spec.aims import Outcome as Outcome
    from peira.spec.benchmark import Benchmark as Benchmark
    from peira.spec.case import Case as Case
    from peira.spec.constraints import Constraint as Constraint
    from peira.spec.factors import Block as Block
    from peira.spec.factors import Design as Design
    from peira.spec.factors import Factor as Factor
    from peira.spec.factors import Level as Level
    from peira.spec.limits import Budget as Budget
    from peira.spec.limits import Policy as Policy
    from peira.spec.limits import Storage as Storage
    from peira.spec.streams.goals import goal as goal
    from peira.spec.streams.stream import Stream as Stream
    from peira.spec.streams.stream import entry_streams as entry_streams
    from peira.spec.streams.stream import stream as stream
    from peira.spec.streams.triggers import after as after
    from peira.spec.streams.triggers import cron as cron
    from peira.spec.streams.triggers import every as every
    from peira.spec.streams.triggers import webhook as webhook
    from peira.spec.study import Study as Study
    from peira.spec.study import study as study
    from peira.spec.work.plan import unit as unit
