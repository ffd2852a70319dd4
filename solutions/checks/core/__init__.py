"""What a claim is, and how a test cell is decided and recorded."""
