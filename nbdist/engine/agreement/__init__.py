"""What all processes of a cell must have alike before it runs, as plain data; imports no framework."""
