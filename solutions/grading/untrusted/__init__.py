"""What a stranger handed in, read and shown: bounded before it is parsed, without scripts before anyone sees it."""
