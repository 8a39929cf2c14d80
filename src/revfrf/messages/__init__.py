"""Every type that may cross a wire, and nothing else."""
