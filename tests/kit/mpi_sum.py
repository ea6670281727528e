"""A part of a script that adds up its ranks through MPI's own library, into `total`."""

ADD_UP = """
import ctypes, os
mpi = ctypes.CDLL("libmpi.so.40", ctypes.RTLD_GLOBAL)
world, kind, add = (
    ctypes.byref(ctypes.c_char.in_dll(mpi, name))
    for name in ("ompi_mpi_comm_world", "ompi_mpi_int", "ompi_mpi_op_sum")
)
assert mpi.MPI_Init(None, None) == 0
mine, total = ctypes.c_int(int(os.environ["RANK"])), ctypes.c_int()
assert mpi.MPI_Allreduce(ctypes.byref(mine), ctypes.byref(total), 1, kind, add, world) == 0
"""
