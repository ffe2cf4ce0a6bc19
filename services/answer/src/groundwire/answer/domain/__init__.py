"""Rules of answering: splitting, scoring, choosing, citing, composing; no I/O."""
