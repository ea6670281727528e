"""MPI over the train group without ssh: each host starts the processes mpirun asks for.

`starters.mpi_starter` runs mpirun on the leader (`mpirun` builds its command line). mpirun starts
its daemon on each host through our agent, which asks that host over an authenticated port
(`daemons`). The daemon starts the ranks (`mpi_rank`).
"""
