"""A start, from a plan to engines that have joined one cluster."""
