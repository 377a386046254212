"""Variables saved by shard, by all processes together, and restored on the same or another number of processes.

In come names, the user's variables, and a folder that all hosts see under one path. Out go that folder with a save
in it, or values that have no names yet. All processes do each step at the same time and know what the others found
before the next one, so that an error of one stops all.

Read first `save.py` and `restore.py`, then `folder.py`, what lies in the folder, and `exchange.py`, how processes
wait for each other; it alone imports Orbax.
"""
