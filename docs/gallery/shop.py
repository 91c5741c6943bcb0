"""A model with tools: transcripts with tool calls, one of which fails."""

from peira import agent, includes, study

ORDERS = {"A-1001": {"state": "shipped", "items": ["lamp", "bulb"], "arrives": "Thursday"}}


def find_order(order: str) -> dict[str, object]:
    """Look an order up by its number."""
    return ORDERS[order]


def refund(order: str, amount: float) -> str:
    """Give money back."""
    return f"refunded {amount:.2f} for {order}"


shop = study(
    name="shop",
    title="Does the clerk find orders?",
    agent=agent("clerk", tools=[find_order, refund], system="You work in a shop. Look orders up.", most=4),
    cases=[
        ("Where is order A-1001?", "Thursday"),
        ("Refund order A-1002, please.", "refunded"),
        ("Do you sell lamps?", "lamps"),
    ],
    evaluators=[includes()],
)
