"""What crosses the border between processes: reports and snapshots, orders and events, as types."""
