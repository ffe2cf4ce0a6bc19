"""Pure functions that convert messages of the contract to the types of the use cases and back."""
