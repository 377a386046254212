"""How long processes may differ before their output is shown apart: they are never at exactly the same place."""

from __future__ import annotations

HOLD_S = 0.5
"""For so long what not all processes have is held back: the others may still bring it."""

FRESH_S = 2.0
"""For so long a process with less of a line or a flood, or with what others have cleared, counts as behind; and a
widget that has changed is taken to become what another process has made of its own."""

STRICT_S = 2 * FRESH_S
"""So much later nothing that is there now is fresh."""
