"""MPI over the train group without ssh: each host starts the processes mpirun asks for.

The leader runs mpirun. It starts its daemon on each host through our agent (`agent`), which asks
that host over an authenticated port (`daemons`). The daemon starts the ranks (`rank`).
"""
