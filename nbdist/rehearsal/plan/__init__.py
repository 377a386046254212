"""Plans for a pod that is not there: its topology, and what each of its devices would hold.

In come a value, the specs that a person asks for, a topology and a mesh. Out goes an `ArrayPlan`, which says what
is impossible or uneven and what would fit, as text, HTML and picture. Shapes alone are enough: nothing is computed
or compiled, and no framework is imported. The rooms above use the topologies and meshes, and find libtpu here.

Read first `mesh.py`, which reads topologies and meshes, then `planned.py`, the plan as data, and `plan.py`, which
makes one.
"""
