"""What all processes of a cell must have alike before it runs; imports no framework."""
