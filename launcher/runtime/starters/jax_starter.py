"""The starter of jax.distributed."""

from __future__ import annotations

from launcher.runtime.starters.python_starter import PythonStarter


class JaxStarter(PythonStarter):
    """One process on each train host, with the variables of jax.distributed."""

    def variables(self) -> dict[str, str]:
        """Return what torchrun would set, which the data loader reads, and JAX's variables.

        JAX reads the coordinator's address itself, and `jax.distributed.initialize` takes the
        other two as arguments. `keras.distribution.initialize` reads all of Keras's.
        """
        common = super().variables()
        coordinator = f"{common['MASTER_ADDR']}:{common['MASTER_PORT']}"
        return {
            **common,
            "JAX_COORDINATOR_ADDRESS": coordinator,
            "JAX_NUM_PROCESSES": common["WORLD_SIZE"],
            "JAX_PROCESS_ID": common["RANK"],
            "KERAS_DISTRIBUTION_JOB_ADDRESSES": coordinator,
            "KERAS_DISTRIBUTION_NUM_PROCESSES": common["WORLD_SIZE"],
            "KERAS_DISTRIBUTION_PROCESS_ID": common["RANK"],
        }
