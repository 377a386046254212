"""Start of a session, from a plan to engines that have joined one cluster."""
