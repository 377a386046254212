"""What tests of several rooms build their subjects from: reports, engines, agents, hosts, pods."""
