"""What roles remember."""
