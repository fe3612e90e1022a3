"""Files of rows: JSON lines, JSON arrays, CSV, Arrow and Parquet."""
