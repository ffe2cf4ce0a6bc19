"""Documents taken apart: the processes that do it, format recognition, one reader for each format."""
