"""The command line and its views."""
