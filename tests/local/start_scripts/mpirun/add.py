from mpi4py import MPI

world = MPI.COMM_WORLD
print("sum of", world.size, "ranks", world.allreduce(world.rank), flush=True)
