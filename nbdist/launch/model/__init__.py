"""The data of a launch: options, hosts, frameworks, plan, rendezvous, ends of processes."""
