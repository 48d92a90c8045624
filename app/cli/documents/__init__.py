"""Commands about documents of your own."""
