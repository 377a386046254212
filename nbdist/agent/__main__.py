"""`python -m nbdist.agent`."""

from nbdist.agent.agent import main

main()
