"""Long campaigns, run by make targets of their own."""
