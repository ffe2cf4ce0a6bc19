"""Child processes: started, talked to, watched and ended in one way, for vector engines, index builders and parsers."""
