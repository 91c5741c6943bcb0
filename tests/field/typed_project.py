"""A user's project that uses every public function; type checkers read it (test_types.py), nobody runs it."""

from __future__ import annotations

from typing import assert_type

import peira
from peira import (
    AnalysisPlan,
    Benchmark,
    Block,
    Budget,
    Case,
    Constraint,
    Design,
    Factor,
    Hypothesis,
    Level,
    NoVerdict,
    Outcome,
    Output,
    PeiraError,
    Policy,
    Reply,
    Results,
    Storage,
    Stream,
    Study,
    after,
    agent,
    ask,
    ask_async,
    ask_person,
    bundle_export,
    bundle_import,
    bundle_work,
    cases_from,
    command,
    contest,
    conversation,
    cron,
    current_trial,
    diff,
    entry_streams,
    estimate,
    evaluate,
    every,
    exact,
    fanout,
    files,
    generate,
    graph,
    import_outputs,
    includes,
    judge,
    match,
    mcp,
    numeric,
    pairwise,
    panel,
    person,
    plan,
    python,
    regex,
    run,
    run_async,
    script,
    serve,
    session,
    shell,
    simulated,
    step,
    stream,
    study,
    submit,
    transform,
    unit,
    webhook,
)


def search(query: str, most: int = 3) -> list[str]:
    return [query] * most


async def fetch(address: str) -> bytes | None:
    return None


def polite(output: str, expected: str) -> bool | NoVerdict:
    return NoVerdict("nothing was said") if not output else "please" in output


@study(
    cases=[Case("Capital of France?", expected="Paris"), ("Capital of Peru?", "Lima")],
    factors={"model": ["openai:gpt-5-mini", "local:smollm2"], "style": ["plain", "think first"]},
    evaluators=[match(), exact(), includes(), regex("x"), numeric(), polite],
    repeats=2,
    budget=Budget(money=1.0),
    policy=Policy(),
    storage=Storage(),
)
def capitals(case: Case, model: str, style: str = "plain") -> Reply:
    found = step("search", search, case.input, most=2)
    assert_type(found, list[str])
    assert_type(current_trial().seed, int)
    reply = ask(model, found[0], system=style)
    assert_type(reply, Reply)
    return reply


assert_type(capitals(Case("x"), model="m"), Reply)


@study(cases=["x"])
async def slowly(case: Case) -> str:
    page = await step("fetch", fetch, case.input)
    assert_type(page, bytes | None)
    return (await ask_async("openai:gpt-5-mini", case.input)).text


whole = study(agents={"one": capitals, "two": capitals}, cases=["x"])
written = Study(
    name="written",
    agent=search,
    cases=["x"],
    factors=[Factor(name="n", levels=[Level(value=1), Level(value=2)])],
    blocks=[Block(name="day", levels=[1, 2])],
    constraints=[Constraint("n == 1 or day == 1")],
    design=Design(name="full"),
    outcomes=[Outcome(name="match")],
    hypotheses=[Hypothesis(id="h", statement="n matters", factor="n")],
    analysis_plans=[AnalysisPlan(name="main")],
)
benchmark = Benchmark(name="b", data={"file": "x.jsonl"})


def everything() -> None:
    some: Study = capitals
    results: Results = run(some, store="x.db", parallel=8, wait=None)
    for made in (
        run(whole),
        generate(written),
        transform(some),
        evaluate(results, [judge("openai:x", "Good?")]),
    ):
        assert_type(made, Results)
    print(results.table("model"), results.compare("model"), results.leaderboard("model"))
    print(plan(some), estimate(some), diff(some, written))
    handle = submit(some)
    print(handle.result(), peira.open("x.db").runs())
    print(import_outputs("x.jsonl").recorded, cases_from(results))
    print(contest(results, "model", "openai:x", "Which is better?"), pairwise("openai:x"))
    print(panel(["openai:a", "openai:b"], "Good?"))
    try:
        bundle_export(some, "b.jsonl")
        bundle_work("b.jsonl", "a.jsonl")
        bundle_import("a.jsonl")
    except PeiraError as problem:
        print(problem)


def asking(case: Case) -> Output:
    answer = ask_person("Send this?", options=["send", "drop"], to="editors")
    return Output(output=answer, metrics={"asked": 1.0})


looping = agent("openai:x", tools=[search, shell(), python(), files(), mcp(["server"])], most=5)
talking = conversation(looping, user=script(["Hi", "Bye"]))
pretending = conversation(looping, user=simulated("openai:x", persona="a customer", goal="a refund"))
walking = graph(nodes={"plan": search, "done": search}, edges=[("plan", "done")], start="plan", ends=["done"])
told = study(name="told", agent=command(["cat"], stdin="{input}"), cases=["x"], evaluators=[person("Right?")])


@stream(
    triggers=[
        after("other", where="output.urgent"),
        every("1h"),
        cron("0 9 * * 1-5", zone="UTC"),
        webhook(secret="HOOK_SECRET"),
    ]
)
def incoming(case: Case) -> str:
    session().set("last", str(case.input))
    return str(case.input)


built = [unit("api", ["make", "api"], may_write=["api"]), unit("docs", ["make", "docs"], needs=["api"])]


async def later(served: Stream) -> None:
    print(await run_async(told, store="x.db"), entry_streams(walking))
    print(fanout(built, store="z.db").units["api"].state)
    with serve(served, store="y.db") as host:
        print(host.submit("incoming", {"n": 1}).result(5))
