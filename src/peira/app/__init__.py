"""The application layer: opens stores and connects engine, analysis and reports.

Names are imported lazily: looking at a run loads no engine, and a run without model calls loads nothing about
calls.
"""

from __future__ import annotations

from peira.core.lazy import lazy_imports

with lazy_imports(__name__):
    from peira.app.batches import open_batches as open_batches
    from peira.app.control import serve_commands as serve_commands
    from peira.app.functions import evaluate as evaluate
    from peira.app.functions import generate as generate
    from peira.app.functions import open as open
    from peira.app.functions import run as run
    from peira.app.functions import submit as submit
    from peira.app.functions import transform as transform
    from peira.app.prior_results import earlier_of as earlier_of
    from peira.app.prior_results import recorded_answer as recorded_answer
    from peira.app.prior_results import source_with_rule as source_with_rule
    from peira.app.recordings import is_store as is_store
    from peira.app.recordings import recorded_answers as recorded_answers
    from peira.app.run import ANSWERS as ANSWERS
    from peira.app.run import OUTPUTS as OUTPUTS
    from peira.app.run import SCORES as SCORES
    from peira.app.run import Handle as Handle
    from peira.app.run import RunOptions as RunOptions
    from peira.app.run import execute as execute
    from peira.app.run import executed_results as executed_results
    from peira.app.run import rescored_results as rescored_results
    from peira.app.session import SessionLike as SessionLike
    from peira.app.store.access import StoreLike as StoreLike
    from peira.app.store.calls import calls_of as calls_of
    from peira.app.store.calls import find_call as find_call
    from peira.app.store.calls import model_calls as model_calls
    from peira.app.store.calls import record_of as record_of
    from peira.app.store.calls import settle as settle
    from peira.app.store.calls import tally_of as tally_of
    from peira.app.store.follower import Follower as Follower
    from peira.app.store.listing import list_calls as list_calls
    from peira.app.store.migration import merge as merge
    from peira.app.store.migration import migrate as migrate
    from peira.app.store.payloads import apply_storage as apply_storage
    from peira.app.store.payloads import forget_payloads as forget_payloads
    from peira.app.store.results import manifest_of as manifest_of
    from peira.app.store.results import results_of as results_of
    from peira.app.store.retention import collect as collect
    from peira.app.store.retention import delete as delete
    from peira.app.store.spending import account_of as account_of
    from peira.app.store.table_files import CachedTable as CachedTable
    from peira.app.store.table_files import read_cached_table as read_cached_table
    from peira.app.store.table_files import write_cached_table as write_cached_table
    from peira.app.store.view import Opened as Opened
    from peira.app.streams.results import stream_results as stream_results
    from peira.app.streams.view import StreamView as StreamView
    from peira.app.studies import StudyLike as StudyLike
    from peira.app.studies import judged_by as judged_by
    from peira.app.work.trial import units_in_trial as units_in_trial
    from peira.app.workers import run_shared as run_shared
    from peira.app.workers import shares_on_ray as shares_on_ray
    from peira.report.progress import ProgressOption as ProgressOption
