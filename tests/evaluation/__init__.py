"""The evaluation's parts: scoring (pure), the runs of diagnose, slow-down of the target, own cost."""
