"""Storage: files and folders that are written wholly or not at all, and names that headers give."""
