"""Training: runs and their stages, the loop, validation, the state and its checkpoints, the log."""
