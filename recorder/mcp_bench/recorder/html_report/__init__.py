"""Reports as a single HTML page, with its charts also saved as PNG files."""
