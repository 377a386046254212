"""The visible side of a session: its picture, live and still, and the outputs of many processes as one.

In come snapshots (`nbdist.contract.snapshot`), answers of processes about arrays and programs, requests of pages,
and the messages by which processes show output and widgets.

Out go frames for the widget and the side panel, a still picture for the saved notebook, texts, and the outputs of
the notebook's cell or lines in a terminal.

Read first `picture.py` (one view of a session), `feed.py` (snapshots become frames) and `output/cell.py` (outputs
of many processes become one).
"""
