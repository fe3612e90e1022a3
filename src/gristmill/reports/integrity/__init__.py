"""Whether files are what the manifest says, and tables what the tokens are."""
