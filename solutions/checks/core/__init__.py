"""How the points of a test cell are decided and recorded."""
