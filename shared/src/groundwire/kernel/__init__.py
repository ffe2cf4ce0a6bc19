"""Pure types and rules of groundwire: no I/O, no vendors, no transport."""
