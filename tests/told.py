"""All that a person can read of a failure or repair."""

from __future__ import annotations

from nbdist.errors import NbdistError, Notice


def told(of: NbdistError | Notice | None) -> str:
    """Return the lines of a notice, or of an error's, with the details."""
    assert of is not None, "nothing was said"
    notice = of if isinstance(of, Notice) else of.notice
    return "\n".join([str(notice), *notice.details])
