"""`make step NAME=17_padding`: a new optional step, laid out from the templates so that it works at once."""
