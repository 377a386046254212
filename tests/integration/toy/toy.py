"""A framework of its own: arrays that lie on the process that made them."""


class Array:
    """Numbers in a row."""

    def __init__(self, values: list[float]) -> None:
        self.values = values


def total(arrays: list[Array]) -> float:
    """The sum of all numbers."""
    return sum(sum(array.values) for array in arrays)
