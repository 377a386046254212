"""The data of a launch: hosts, placement, plan, rendezvous, ends of processes."""
