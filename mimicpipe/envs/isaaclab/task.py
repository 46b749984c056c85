"""`task=isaaclab`: the task is the one that `env.task` names, and its subtasks are those of the env's configuration."""


class IsaacLabTask:
    """Says nothing of the task; the env does.

    Args:
        variant: the only one; reset distributions are the env's (`env.overrides`).
    """

    def __init__(self, variant: str = "D0") -> None:
        self.variant = variant
