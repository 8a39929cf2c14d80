"""What a party remembers: in memory, in SQLite, or in a directory of databases."""
