"""What a text claims, which facts it states, and where stored sources say so."""
