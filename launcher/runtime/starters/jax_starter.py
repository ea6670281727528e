"""The starter of jax.distributed."""

from __future__ import annotations

from launcher.runtime.starters.python_starter import PythonStarter


class JaxStarter(PythonStarter):
    """One process on each train host, with the variables of jax.distributed."""

    def variables(self) -> dict[str, str]:
        """Return what torchrun would set, which the data loader reads, and JAX's variables.

        JAX reads the coordinator's address itself; `initialize` takes the others as arguments.
        """
        common = super().variables()
        return {
            **common,
            "JAX_COORDINATOR_ADDRESS": f"{common['MASTER_ADDR']}:{common['MASTER_PORT']}",
            "JAX_NUM_PROCESSES": common["WORLD_SIZE"],
            "JAX_PROCESS_ID": common["RANK"],
        }
