"""Models of other programs, made into model directories of this one."""
