"""Streams: work that arrives."""

import time

from peira import after, ask_person, stream


@stream(
    session="input.customer",
    isolation="synchronized",
    parallel=2,
    evaluators=["includes"],
    factors={"tone": ["formal", "warm"]},
    assign="random",
    goals=["mean(failed) <= 0.5 over 7d"],
)
def support(case, tone):
    """Answer a customer."""
    time.sleep(0.4)
    text = case.input["text"]
    if "lawyer" in text:
        ask_person("Answer this one yourself?", show=text, options=["yes", "no"], to="lead")
    if "broken" in text:
        raise RuntimeError("the warehouse does not answer")
    return {"reply": f"Hello {case.input['customer']}, we look into it.", "urgent": "now" in text}


@stream(triggers=[after("support", where="output.urgent")])
def escalate(case):
    """Call somebody."""
    return {"called": "the lead", "about": case.input}


@stream(
    parallel=4,
    factors={"subject": ["plain", "question", "discount"]},
    assign="thompson",
    stop="when decided",
    experiment={"score": "opened"},
    goals=["mean(failed) <= 0.05 over 7d"],
)
def newsletter(case, subject):
    """Write to a reader; whether the letter is opened is reported later."""
    words = {"plain": "News of November", "question": "Is your lamp too dim?", "discount": "Ten percent off!"}
    return f"{case.input}: {words[subject]}"
