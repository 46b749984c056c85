"""`python patient_ray.py ARGUMENTS`: run.py, with a Ray that may take minutes to start, as it does on a busy machine.

Ray gives its own processes 30 s, and has no option for all of them.
"""

import os
import runpy
import sys
import time
from pathlib import Path

_PATIENCE_S = 240.0


def be_patient():
    """Let `ray.init` wait for the processes of Ray."""
    os.environ["RAY_agent_register_timeout_ms"] = "600000"  # noqa: SIM112 - its name; read when Ray is imported
    import ray._private.services as services

    get_node_now = services.get_node

    def get_node(*where):
        """As Ray's own, but it waits for the node."""
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            try:
                return get_node_now(*where)
            except RuntimeError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)

    services.get_node = get_node


if __name__ == "__main__":
    be_patient()
    script = Path(__file__).parents[2] / "run.py"
    sys.argv[0] = str(script)
    sys.path[0] = str(script.parent)
    runpy.run_path(str(script), run_name="__main__")
