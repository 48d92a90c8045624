"""Files and folders written in one step, locks, record files, sealed folders, and progress.

Of knowgap, this package only imports the errors.
"""
