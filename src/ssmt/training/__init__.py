"""Training: the loop, its schedule, its checkpoints and its log."""
