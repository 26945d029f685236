"""Read and write files of rows: JSON lines (plain or compressed) and Parquet."""
