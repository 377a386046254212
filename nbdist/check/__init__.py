"""Before a cell: whether all its processes have alike what must be; if not, what differs where."""

from nbdist.check.ask import ANSWER_SECONDS, refuse_disagreement

__all__ = ["ANSWER_SECONDS", "refuse_disagreement"]
