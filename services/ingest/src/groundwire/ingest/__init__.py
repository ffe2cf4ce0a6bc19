"""The ingest service: takes documents apart, embeds them and makes them searchable."""
