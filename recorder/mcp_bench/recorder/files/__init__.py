"""Files that rows are kept in: JSON lines, plain or compressed, and Parquet."""
