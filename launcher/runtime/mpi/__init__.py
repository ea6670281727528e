"""MPI over the train group, without ssh: the hosts' own processes start what mpirun asks for.

The leader runs mpirun. It starts its daemon on each host through an agent of ours (`agent`), which
asks that host over an authenticated port (`daemons`); the daemon starts the ranks (`rank`).
"""
