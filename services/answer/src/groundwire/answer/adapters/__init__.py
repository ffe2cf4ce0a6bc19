"""What the ports of the answer service are made of."""
