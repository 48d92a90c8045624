"""What stands under everything: files and folders written in one step, locks, record files, sealed folders, progress.

This package imports nothing of knowgap's but its errors.
"""
