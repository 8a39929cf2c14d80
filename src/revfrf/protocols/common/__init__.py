"""What several protocols need."""
