"""The answer service: questions in, answers out whose every sentence cites exact characters of a stored source."""
