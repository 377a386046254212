"""Cases in which a behaviour is tested once more; see `cases`."""

from __future__ import annotations

from typing import Any

import pytest


def cases(first: Any, *others: Any) -> list[Any]:
    """Cases of a test that takes seconds: the first runs in `make test`, the others in `make test-variants`.

    Args:
      first: The value of a parameter, or a tuple of those of several, in which most would go wrong.
      others: The same; all of them run as well where nothing is deselected.
    """
    return [first, *(_variant(one) for one in others)]


def _variant(case: Any) -> Any:
    values = case if isinstance(case, tuple) else (case,)
    return pytest.param(*values, marks=pytest.mark.variant)
