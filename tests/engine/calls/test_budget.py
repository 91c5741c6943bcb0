"""What is set aside before a call, so that workers together never spend more than there is."""

from __future__ import annotations

import asyncio
import unicodedata
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from peira.core.contracts import Op
from peira.core.log.events import (
    AnyEvent,
    CallAnswered,
    CallIntended,
    CallLost,
    RunPlanned,
    RunStarted,
    Spent,
    TasksClaimed,
)
from peira.core.models import ModelLimits, NamedModel, Request, Usage
from peira.engine.calls.budget import (
    ASSUMED_OUTPUT,
    IMAGE,
    INSTRUCTIONS,
    MISFITS,
    OVERHEAD,
    Account,
    ModelUsage,
    Reservation,
    RunAccounts,
    most_input,
    most_usage,
)
from peira.engine.run_start import spent_by_calls
from peira.errors import Exhausted, Invalid
from peira.models.prices import Rates
from peira.models.providers.scripted import ScriptedModel
from peira.spec.limits import Allowance, Budget
from peira.stores.memory import MemoryStore

CENT = Rates(request=0.01)
A_TENTH = Rates(output=1000.0)
"""A tenth of a cent for each token of output."""


def model(name: str = "a", price: Any = A_TENTH) -> NamedModel:
    return NamedModel(f"alias-{name}", ScriptedModel(name), price=price)


@dataclass
class Till:
    """Calls of a reserve, settled in the order that somebody else chooses."""

    reserve: RunAccounts
    under_way: list[tuple[asyncio.Future[None], int]] = field(default_factory=list)
    took: int = 0
    calls: int = 0
    most: int = 0
    refused: list[str] = field(default_factory=list)

    async def call(
        self, bound: int, actual: int, named: NamedModel | None = None, trial: Account | None = None
    ) -> None:
        """One that may take `bound` tokens of output and takes `actual`."""
        named = named or model()
        try:
            share = await self.reserve.reserve(named, Usage(input=0, output=bound), trial)
        except Exhausted as why:
            self.refused.append(str(why))
            return
        self.calls += 1
        over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.under_way.append((over, actual))
        self.most = max(self.most, len(self.under_way))
        await over
        self.took += actual
        money = named.price.cost(Usage(input=0, output=actual)) if named.price else None
        self.reserve.settle(named, trial, share, Reservation(money or 0.0, actual))

    @property
    def at_stake(self) -> int:
        """What was taken, and what those under way will take."""
        return self.took + sum(actual for _, actual in self.under_way)

    async def let_all_end(self, choose: Callable[[int], int], check: Callable[[], None]) -> None:
        await asyncio.sleep(0)
        while self.under_way:
            over, actual = self.under_way.pop(choose(len(self.under_way)))
            over.set_result(None)
            check_after = self.took + actual
            while self.took < check_after:
                await asyncio.sleep(0)
            for _ in range(3):  # those who were waiting get going
                await asyncio.sleep(0)
            check()


def play(scene: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    return asyncio.run(asyncio.wait_for(scene(), 20))


def chooser(data: st.DataObject) -> Callable[[int], int]:
    return lambda n: data.draw(st.integers(0, n - 1))


CALLS = st.lists(
    st.integers(1, 50).flatmap(lambda bound: st.tuples(st.just(bound), st.integers(1, bound))), max_size=30
)


@given(CALLS, st.integers(1, 200), st.booleans(), st.data())
def test_never_more_than_there_is_in_any_order(
    calls: list[tuple[int, int]], most: int, money: bool, data: st.DataObject
) -> None:
    async def scene() -> None:
        budget = Budget(money=most / 1000) if money else Budget(tokens=most)
        till = Till(RunAccounts(budget))
        tasks = [asyncio.ensure_future(till.call(*call)) for call in calls]

        def check() -> None:
            assert till.at_stake <= most

        await till.let_all_end(chooser(data), check)
        await asyncio.gather(*tasks)
        assert till.calls + len(till.refused) == len(calls)
        if till.refused:  # nobody is turned away for what was only set aside
            assert till.took + max(bound for bound, _ in calls) > most

    play(scene)


@given(st.integers(1, 64), st.data())
def test_a_dollar_is_exactly_a_hundred_calls_of_a_cent(workers: int, data: st.DataObject) -> None:
    async def scene() -> None:
        reserve = RunAccounts(Budget(money=1.0))
        named, made = model(price=CENT), 0

        async def work() -> None:
            nonlocal made
            while True:
                share = await reserve.reserve(named, Usage(input=1, output=1), None)
                made += 1
                await asyncio.sleep(0)
                reserve.settle(named, None, share, Reservation(0.01, 2))

        outcomes = await asyncio.gather(*(work() for _ in range(workers)), return_exceptions=True)
        assert all(isinstance(outcome, Exhausted) for outcome in outcomes)
        assert made == 100
        assert reserve.used_up == "budget.money of $1 is used up"

    play(scene)


def test_ten_times_ten_cents_are_a_dollar() -> None:
    """Also in floating point, and also for a next call that nothing is known of."""

    async def scene() -> None:
        reserve = RunAccounts(Budget(money=1.0))
        for _ in range(10):
            share = await reserve.reserve(model(), Usage(input=0, output=0), None)
            reserve.settle(model(), None, share, Reservation(0.1, 0))
        with pytest.raises(Exhausted, match="is used up"):
            await reserve.reserve(model(), Usage(input=0, output=0), None)

    play(scene)


@given(st.lists(st.integers(1, 40), min_size=1, max_size=40), st.integers(1, 8), st.integers(10, 200))
def test_without_a_bound_no_more_than_the_calls_in_flight_are_too_much(
    outputs: list[int], workers: int, most: int
) -> None:
    async def scene() -> None:
        reserve, experience, took = RunAccounts(Budget(tokens=most)), ModelUsage(), 0
        left = iter(outputs)

        async def work() -> None:
            nonlocal took
            for output in left:
                expected = experience.expected(0, Request(({"role": "user", "content": ""},)))
                bound = Usage(input=0, output=expected.output)
                share = await reserve.reserve(model(), bound, None)
                await asyncio.sleep(0)
                took += output
                experience.learn(0, Usage(input=0, output=output))
                reserve.settle(model(), None, share, Reservation(0.0, output))

        await asyncio.gather(*(work() for _ in range(workers)), return_exceptions=True)
        assert took <= most + workers * max(outputs)
        if took < sum(outputs):
            assert took + max(outputs) > most

    play(scene)


@given(st.integers(1, 20), st.integers(1, 20), st.integers(1, 30), st.data())
def test_calls_are_counted_in_every_account_that_they_touch(
    run: int, one: int, calls: int, data: st.DataObject
) -> None:
    async def scene() -> None:
        budget = Budget(calls=run, per_model={"scripted:a": Allowance(calls=one)})
        till, others = Till(RunAccounts(budget)), 0
        tasks = [asyncio.ensure_future(till.call(1, 1)) for _ in range(calls)]
        await till.let_all_end(chooser(data), lambda: None)
        await asyncio.gather(*tasks)
        assert till.calls == min(run, one, calls)
        tasks = [asyncio.ensure_future(till.call(1, 1, model("b"))) for _ in range(30)]
        await till.let_all_end(chooser(data), lambda: None)
        await asyncio.gather(*tasks)
        others = till.calls - min(run, one, calls)
        assert others == min(30, run - min(run, one, calls))

    play(scene)


def test_a_model_that_used_up_its_own_share_does_not_end_the_run() -> None:
    async def scene() -> None:
        reserve = RunAccounts(Budget(money=1.0, per_model={"scripted:a": Allowance(money=0.02)}))
        for _ in range(2):
            share = await reserve.reserve(model(price=CENT), Usage(input=1, output=1), None)
            reserve.settle(model(price=CENT), None, share, Reservation(0.01, 2))
        with pytest.raises(Exhausted, match=r"^budget.per_model.scripted:a.money of \$0.02 is used up$"):
            await reserve.reserve(model(price=CENT), Usage(input=1, output=1), None)
        assert reserve.used_up == ""
        assert reserve.reached == ["budget.per_model.scripted:a.money of $0.02 is used up"]
        await reserve.reserve(model("b", CENT), Usage(input=1, output=1), None)

    play(scene)


def test_a_trial_has_its_own_share_and_ends_nobody_else() -> None:
    async def scene() -> None:
        reserve = RunAccounts(Budget(per_trial=Allowance(calls=2, tokens=100)))
        first, second = reserve.trial("one"), reserve.trial("two")
        assert reserve.trial("one") is first
        assert first is not None
        till = Till(reserve)
        for _ in range(3):
            call = asyncio.ensure_future(till.call(10, 10, trial=first))
            await till.let_all_end(lambda n: 0, lambda: None)
            await call
        assert (till.calls, till.refused) == (2, ["budget.per_trial.calls of 2 is used up"])
        with pytest.raises(Exhausted, match="has 100 left, a call may take 101"):
            await reserve.reserve(model(), Usage(input=0, output=101), second)
        await reserve.reserve(model(), Usage(input=0, output=100), second)
        assert (reserve.used_up, reserve.reached) == ("", [])

    play(scene)


def test_trials_without_a_limit_have_no_account() -> None:
    assert RunAccounts(Budget(money=1.0)).trial("one") is None


def test_what_was_replayed_counts_for_the_trial() -> None:
    """A resumed trial has used what it used before."""

    async def scene() -> None:
        reserve = RunAccounts(Budget(per_trial=Allowance(tokens=100)))
        account = reserve.trial("one")
        assert account is not None
        account.take(Reservation(0.0, 60))
        with pytest.raises(Exhausted):
            await reserve.reserve(model(), Usage(input=0, output=50), account)

    play(scene)


def test_one_that_does_not_fit_waits_for_those_under_way() -> None:
    """They may turn out cheaper than what was set aside."""

    async def scene() -> None:
        reserve = RunAccounts(Budget(tokens=100))
        share = await reserve.reserve(model(), Usage(input=0, output=90), None)
        second = asyncio.ensure_future(reserve.reserve(model(), Usage(input=0, output=50), None))
        await asyncio.sleep(0)
        assert not second.done()
        reserve.settle(model(), None, share, Reservation(0.0, 5))
        await second
        third = asyncio.ensure_future(reserve.reserve(model(), Usage(input=0, output=50), None))
        await asyncio.sleep(0)
        assert not third.done()
        reserve.settle(model(), None, await second, Reservation(0.0, 50))
        with pytest.raises(Exhausted, match=r"budget.tokens of 100 has 45 left, a call may take 50"):
            await third

    play(scene)


def test_who_stops_waiting_is_forgotten() -> None:
    async def scene() -> None:
        reserve = RunAccounts(Budget(calls=1))
        share = await reserve.reserve(model(), Usage(input=0, output=1), None)
        waiting = asyncio.ensure_future(reserve.reserve(model(), Usage(input=0, output=1), None))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.sleep(0)
        reserve.settle(model(), None, share, None)
        await reserve.reserve(model(), Usage(input=0, output=1), None)

    play(scene)


def test_a_call_that_took_nothing_gives_everything_back() -> None:
    async def scene() -> None:
        reserve = RunAccounts(Budget(calls=1, tokens=10, money=0.01))
        for _ in range(1000):
            share = await reserve.reserve(model(), Usage(input=0, output=10), None)
            reserve.settle(model(), None, share, None)
        share = await reserve.reserve(model(), Usage(input=0, output=10), None)
        assert share == Reservation(pytest.approx(0.01), 10)

    play(scene)


@pytest.mark.parametrize(
    "budget",
    [
        Budget(money=1.0),
        Budget(per_model={"scripted:a": Allowance(money=1.0)}),
        Budget(per_trial=Allowance(money=1.0)),
    ],
)
def test_money_cannot_be_kept_where_the_price_is_unknown(budget: Budget) -> None:
    async def scene() -> None:
        reserve = RunAccounts(budget)
        with pytest.raises(Invalid, match=r"alias-a: its price is unknown") as problem:
            await reserve.reserve(model(price=None), Usage(input=1, output=1), reserve.trial("one"))
        assert len(problem.value.problems) == 1
        assert '[models."alias-a"] price' in str(problem.value)

    play(scene)


def test_without_a_limit_on_money_a_price_need_not_be_known() -> None:
    async def scene() -> None:
        reserve = RunAccounts(Budget(tokens=10, per_model={"scripted:b": Allowance(money=1.0)}))
        await reserve.reserve(model(price=None), Usage(input=1, output=1), None)

    play(scene)


# What was spent before


@given(
    st.lists(
        st.builds(
            Spent,
            st.sampled_from(["scripted:a", "scripted:b"]),
            sends=st.integers(0, 9),
            input=st.integers(0, 99),
            output=st.integers(0, 99),
            money=st.floats(0, 1),
        ),
        max_size=6,
    ),
    st.integers(1, 60),
)
def test_what_earlier_runs_spent_counts(before: list[Spent], most: int) -> None:
    async def scene() -> None:
        def calls(spent: Sequence[Spent]) -> int:
            return sum(one.sends for one in spent)

        reserve = RunAccounts(
            Budget(calls=most, per_model={"scripted:a": Allowance(calls=most // 2 + 1)}), before
        )
        left = most - calls(before)
        left_of_a = most // 2 + 1 - calls([one for one in before if one.model == "scripted:a"])
        made = 0
        try:
            while made <= most:
                share = await reserve.reserve(model(), Usage(input=0, output=0), None)
                reserve.settle(model(), None, share, Reservation(0.0, 0))
                made += 1
        except Exhausted:
            pass
        assert made == max(0, min(left, left_of_a))

    play(scene)


def test_money_and_tokens_of_earlier_runs_count() -> None:
    async def scene() -> None:
        before = [Spent("scripted:x", 1, 1, input=30, output=20, money=0.99)]
        with pytest.raises(Exhausted, match=r"budget.money"):
            await RunAccounts(Budget(money=1.0), before).reserve(model(), Usage(input=0, output=11), None)
        await RunAccounts(Budget(money=1.0), before).reserve(model(), Usage(input=0, output=10), None)
        with pytest.raises(Exhausted, match=r"budget.tokens"):
            await RunAccounts(Budget(tokens=60), before).reserve(model(), Usage(input=0, output=11), None)

    play(scene)


def test_what_sends_without_an_answer_may_have_cost_counts_too() -> None:
    async def scene() -> None:
        before = [Spent("scripted:x", 2, 1, 10, 10, 0.5, 0, 1, doubtful_tokens=30, doubtful_money=0.49)]
        with pytest.raises(Exhausted, match=r"budget.money"):
            await RunAccounts(Budget(money=1.0), before).reserve(model(), Usage(input=0, output=11), None)
        await RunAccounts(Budget(money=1.0), before).reserve(model(), Usage(input=0, output=10), None)
        with pytest.raises(Exhausted, match=r"budget.tokens"):
            await RunAccounts(Budget(tokens=60), before).reserve(model(), Usage(input=0, output=11), None)
        await RunAccounts(Budget(tokens=60), before).reserve(model(), Usage(input=0, output=10), None)

    play(scene)


def told(*events: AnyEvent) -> MemoryStore:
    """A store with one run to whom this happened, and that did not come to its end."""
    store = MemoryStore()
    opening = (RunPlanned("m", "s", 1), RunStarted("1", 1), TasksClaimed("generate", "generate", "1", ("t",)))
    outcomes = store.commit([Op("r", (event,)) for event in (*opening, *events)]).result()
    assert not any(outcomes)
    return store


def sent(key: str, send: int = 1, tokens: int = 0, money: float = 0.0) -> CallIntended:
    return CallIntended("t", 1, key, "scripted:a", "digest", "generate", send, "", tokens, money)


def answered(key: str, cost: float = 0.25, **tokens: int) -> CallAnswered:
    return CallAnswered("t", key, cost=cost, **{"input": 7, "output": 5, **tokens})


def total(spent: Sequence[Spent]) -> Spent:
    assert {one.model for one in spent} == {"scripted:a"}
    fields = [name for name in Spent.__struct_fields__ if name not in ("model", "account")]
    return Spent("scripted:a", **{name: sum(getattr(one, name) for one in spent) for name in fields})


def test_an_interrupted_run_is_counted_call_by_call() -> None:
    store = told(
        sent("one"),
        answered("one"),
        sent("two"),
        CallLost("t", "two", "busy"),  # free
        sent("two", 2),
        CallLost("t", "two", "reset", doubt=True),
        sent("two", 3),
        answered("two", cost=-1.0),
        sent("three"),
        answered("three", input=-1, output=-1),
        sent("four"),  # and then it was killed
    )
    assert total(spent_by_calls(store, "r")) == Spent(
        "scripted:a", sends=5, answers=3, input=14, output=10, money=0.5, unpriced=1, doubtful=2
    )


def test_what_was_set_aside_for_sends_that_a_killed_run_did_not_hear_of_is_in_doubt() -> None:
    store = told(
        sent("one", 1, 20, 0.5),
        answered("one"),
        sent("two", 1, 30, 0.25),
        CallLost("t", "two", "reset", True, 30, 0.25),
        sent("three", 1, 40, 1.0),  # cut off
        sent("three", 2, 50, 2.0),  # and then it was killed
        sent("four", 1, 60, 4.0),
        CallLost("t", "four", "busy"),  # free
    )
    assert total(spent_by_calls(store, "r")) == Spent(
        "scripted:a",
        sends=4,
        answers=1,
        input=7,
        output=5,
        money=0.25,
        doubtful=3,
        doubtful_tokens=120,
        doubtful_money=3.25,
    )


def test_a_run_that_asked_nobody_spent_nothing() -> None:
    assert spent_by_calls(told(), "r") == []


# What a call is expected to take


def request(**parameters: Any) -> Request:
    return Request(({"role": "user", "content": "x"},), parameters=parameters)


@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens", "max_output_tokens"])
def test_a_stated_limit_bounds_the_output(name: str) -> None:
    experience = ModelUsage()
    experience.learn(10, Usage(input=5, output=900))
    assert experience.expected(10, request(**{name: 64})).output == 64
    assert experience.expected(10, request(**{name: 64, "n": 3})).output == 3 * 64
    assert experience.expected(10, request()).output == 900


@given(
    st.lists(st.tuples(st.integers(1, 10_000), st.integers(0, 3000)), max_size=300), st.integers(1, 10_000)
)
def test_input_is_expected_as_it_was_for_the_nearest_in_size(seen: list[tuple[int, int]], size: int) -> None:
    experience = ModelUsage()
    assert experience.expected(size, request()).input == size + OVERHEAD
    for its_size, tokens in seen:
        experience.learn(its_size, Usage(input=tokens, output=1))
    learned = seen[:256]
    if learned:
        nearest = min(abs(its_size - size) for its_size, _ in learned)
        at_that = {tokens for its_size, tokens in learned if abs(its_size - size) == nearest}
        assert experience.expected(size, request()).input in at_that


def test_what_the_provider_did_not_count_teaches_nothing() -> None:
    experience = ModelUsage()
    experience.learn(10, Usage())
    assert experience.expected(10, request()) == Usage(input=10 + OVERHEAD, output=0)


# The most that a call can take

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)


def tokens(text: str) -> int:
    """Of the tokenizer that has nothing but bytes, with and without the normalisation that others have."""
    return max(len(text.encode()), len(unicodedata.normalize("NFKC", text).encode()))


@given(st.lists(st.one_of(TEXT, st.lists(TEXT, max_size=3)), min_size=1, max_size=4), TEXT, TEXT, TEXT)
def test_no_text_has_more_tokens_than_are_counted_for_its_request(
    messages: list[Any], system: str, tool: str, stop: str
) -> None:
    contents = [
        one if isinstance(one, str) else [{"type": "text", "text": text} for text in one] for one in messages
    ]
    asked = Request(
        tuple({"role": "user", "content": content} for content in contents),
        system,
        ({"name": "t", "description": tool},),
        {"title": tool},
        {"stop": stop, "max_tokens": 3},
    )
    said = [text for one in messages for text in ([one] if isinstance(one, str) else one)]
    most = most_input(asked)
    assert most is not None
    assert most >= sum(map(tokens, [*said, system, tool, tool, stop])) + 4 * len(messages)


def test_what_a_request_holds_beside_text() -> None:
    plain = most_input(request())
    assert plain is not None
    assert plain == OVERHEAD + 8 + 1
    image = Request(({"role": "user", "content": [{"type": "image", "data": "A" * 10**6}]},))
    assert most_input(image) == OVERHEAD + 8 + IMAGE
    assert (most_input(msgspec.structs.replace(request(), tools=({"name": "t"},))) or 0) > INSTRUCTIONS
    calls = {"role": "assistant", "content": None, "tool_calls": [{"arguments": "y" * 500}]}
    assert (most_input(Request((calls,))) or 0) > 500


@pytest.mark.parametrize(
    "asked",
    [
        Request(({"role": "user", "content": [{"type": "file", "file_id": "f"}]},)),
        Request(({"role": "user", "content": [{"type": "input_audio", "data": "x"}]},)),
        msgspec.structs.replace(request(), tools=({"type": "web_search"},)),
        request(previous_response_id="r"),
        request(web_search_options={}),
    ],
)
def test_what_refers_to_content_elsewhere_takes_the_whole_window(asked: Request) -> None:
    assert most_input(asked) is None
    known = NamedModel("a", ScriptedModel("a"), window=5000, output=7)
    assert most_usage(known, asked) == (Usage(input=5000, output=7), True)
    assert most_usage(msgspec.structs.replace(known, window=None), asked)[1] is False
    declared = msgspec.structs.replace(known, limits=ModelLimits(input=900))
    assert most_usage(declared, asked) == (Usage(input=900, output=7), True)


@pytest.mark.parametrize(
    ("defaults", "parameters", "more", "output"),
    [
        ({}, {"max_tokens": 5}, {}, 5),
        ({"max_tokens": 9}, {"max_tokens": 5}, {}, 5),
        ({"max_tokens": 9}, {}, {}, 9),
        ({"max_completion_tokens": 9}, {"max_tokens": 5}, {}, 9),
        ({"n": 4}, {"max_tokens": 5}, {}, 20),
        ({"n": 4}, {"max_tokens": 5, "n": 2}, {}, 10),
        ({}, {"max_tokens": 5, "n": "two"}, {}, 5),
        ({}, {}, {"output": 4096}, 4096),
        ({}, {}, {"limits": ModelLimits(output=77)}, 77),
        ({}, {"max_tokens": 500}, {"limits": ModelLimits(output=77)}, 77),
    ],
)
def test_the_limit_of_an_output(
    defaults: dict[str, int], parameters: dict[str, Any], more: dict[str, Any], output: int
) -> None:
    named = NamedModel("a", ScriptedModel("a"), defaults=tuple(defaults.items()), **more)
    usage, certain = most_usage(named, request(**parameters))
    assert (usage.output, certain) == (output, True)


def test_without_a_limit_an_output_may_fill_the_window() -> None:
    named = NamedModel("a", ScriptedModel("a"), window=5000)
    usage, certain = most_usage(named, request(n=2))
    assert (usage.output, certain) == (10_000, False)
    usage, certain = most_usage(msgspec.structs.replace(named, window=None), request())
    assert (usage.output, certain) == (ASSUMED_OUTPUT, False)


def test_what_is_written_to_the_cache_is_reserved_at_its_price() -> None:
    reserve = RunAccounts(Budget(money=100.0))
    share = reserve.share(model(price=Rates(input=4.0, written=5.0, cached=0.4)), Usage(10**6, 0), None)
    assert share.money == pytest.approx(5.0)


def test_a_call_without_a_limit_goes_alone_where_its_most_does_not_fit() -> None:
    async def scene() -> None:
        reserve, most, likely = RunAccounts(Budget(tokens=100)), Usage(10, 90), Usage(10, 5)
        first = await reserve.reserve(model(), most, None, likely)
        second = asyncio.ensure_future(reserve.reserve(model(), most, None, likely))
        await asyncio.sleep(0)
        assert not second.done()
        reserve.settle(model(), None, first, Reservation(0.0, 40))
        share = await second  # alone, as 60 are left and it may take 100
        bounded = asyncio.ensure_future(reserve.reserve(model(), Usage(1, 1), None))
        await asyncio.sleep(0)
        assert not bounded.done()
        reserve.settle(model(), None, share, Reservation(0.0, 50))
        reserve.settle(model(), None, await bounded, Reservation(0.0, 2))
        with pytest.raises(Exhausted, match="has 8 left, a call may take 100; with max_tokens less"):
            await reserve.reserve(model(), most, None, likely)

    play(scene)


def test_what_a_provider_adds_to_requests_is_learned() -> None:
    reserve = RunAccounts(Budget(tokens=10_000))
    most, _ = reserve.most(model(), request(max_tokens=10))
    assert not reserve.exceeded(model(), most, Usage(input=5, output=10))
    assert reserve.exceeded(model(), most, Usage(input=(most.input or 0) + 300, output=10))
    again, _ = reserve.most(model(), request(max_tokens=10))
    assert again.input == (most.input or 0) + 300
    assert not reserve.exceeded(model(), again, Usage(input=(most.input or 0) + 300, output=10))


def test_one_large_call_does_not_end_the_run_and_many_do() -> None:
    async def scene() -> None:
        reserve = RunAccounts(Budget(tokens=100))
        share = await reserve.reserve(model(), Usage(0, 10), None)
        reserve.settle(model(), None, share, Reservation(0.0, 10))
        for _ in range(MISFITS):
            assert reserve.used_up == ""
            with pytest.raises(Exhausted, match="has 90 left, a call may take 200"):
                await reserve.reserve(model(), Usage(0, 200), None)
        assert reserve.used_up != ""
        assert len(reserve.reached) == 1

    play(scene)


@pytest.mark.parametrize(("small", "ends"), [(1, True), (2, True), (3, False)])
def test_a_run_ends_if_a_third_of_its_calls_do_not_fit(small: int, ends: bool) -> None:
    """With one small call before each large one, every further trial would be paid for in vain."""

    async def scene() -> None:
        reserve = RunAccounts(Budget(tokens=1000))
        for _ in range(20):
            for _ in range(small):
                share = await reserve.reserve(model(), Usage(0, 5), None)
                reserve.settle(model(), None, share, Reservation(0.0, 5))
            with pytest.raises(Exhausted):
                await reserve.reserve(model(), Usage(0, 2000), None)
        assert (reserve.used_up != "") is ends

    play(scene)
