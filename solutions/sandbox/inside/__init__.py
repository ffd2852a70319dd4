"""What runs inside a sandbox before the stranger's command does; a folder of its own, since a sandbox sees no other."""
