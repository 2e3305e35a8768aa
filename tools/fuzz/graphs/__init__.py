"""Makes random graphs of the cuesta dialect, compares them with the ops' torch references, reduces failing ones."""
