"""Containers on disk, read without trust: every size is checked against the file before anything is allocated."""
