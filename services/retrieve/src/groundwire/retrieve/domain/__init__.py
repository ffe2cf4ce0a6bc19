"""Pure rules of searching: terms, filters, fusion."""
