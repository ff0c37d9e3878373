"""Counts of the refusals in logs of any size: by code, class, surface, time and file.

`scan_range` counts in a range of a file and `scan_batch` in an Arrow batch; what they
return merges in any order and grouping, so the work can be cut anywhere.
"""
