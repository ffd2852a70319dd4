"""The bank of submissions: wrong ones, each with the claims it must lose, and right ones that do things differently."""
