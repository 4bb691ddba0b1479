"""Models written by others, read without importing their libraries."""
