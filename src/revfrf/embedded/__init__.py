"""All roles in one process."""
