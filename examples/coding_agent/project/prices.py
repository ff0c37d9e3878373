"""Prices with a discount. There is a mistake in it, for the agent to mend."""


def reduce(price: float, percent: float) -> float:
    """Return the price less some percent."""
    return price - percent
