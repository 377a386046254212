"""Before a cell: whether all its processes have alike what must be; if not, what differs where."""

from nbdist.check.ask import ANSWER_SECONDS, refuse_disagreement
from nbdist.check.digests import Digests

__all__ = ["ANSWER_SECONDS", "Digests", "refuse_disagreement"]
