"""Small files, keys as text, CSV and Parquet."""
