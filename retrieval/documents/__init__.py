"""Files of many kinds into passages, and where in which file each passage comes from."""
