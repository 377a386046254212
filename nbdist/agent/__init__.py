"""The program that runs once a host: it starts the processes there, watches them, and keeps the user's files.

In come orders of the kernel, a line of JSON each on standard input (`nbdist.contract.orders`). Out go events, a
line each on standard output (`nbdist.contract.events`), and the processes: engines, the controller, coordination
services.

Nothing outlives the agent, nor the kernel unless the session is to be kept.

Read first `agent.py` (what each order does), `processes.py` (children and engines) and `kernel_link.py` (what
holds an agent and its kernel together).
"""
