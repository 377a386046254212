"""The data of a launch: hosts, placement, plan, rendezvous, how processes ended."""
