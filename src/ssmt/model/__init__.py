"""Models: each turns a batch into log-probabilities; none knows how it is trained or searched."""
