"""Documents taken apart: format recognition, one reader for each format, and what goes between the processes."""
