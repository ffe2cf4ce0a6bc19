"""The retrieve service: finds the chunks that answer a query, under filters, with comparable scores."""
