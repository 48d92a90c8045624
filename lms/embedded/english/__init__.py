"""What the embedded reader knows of English."""
