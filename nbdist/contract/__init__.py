"""Types of everything that crosses a process border: requests and answers, reports, events, messages.

In come instances of `Data` (msgspec); out goes plain data that JSON carries unchanged, and on the other side the
same instances again. Data of another shape raise a `WireError`. The TypeScript types of the view are generated
from here.

Engines, agents, the kernel and the view all import this package, so it imports nothing outside the standard
library but msgspec.

Read first `wire.py` (`Data`, to JSON and back, and requests), `snapshot.py` (what is known of a session) and
`calls/__init__.py` (what processes can be asked).
"""
