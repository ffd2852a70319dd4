"""The lab's pipeline as a library; `trtlab` is its command line. It holds answers, so no submission may see it."""
