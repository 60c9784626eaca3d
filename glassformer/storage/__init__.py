"""Atomic writing of files and folders, and validation of file names from headers."""
