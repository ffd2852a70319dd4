"""The lab's whole pipeline as a library; `trtlab` is its command line."""
