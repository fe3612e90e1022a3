"""Downloads by HTTP: hosts, secrets, answers, parts, and what goes wrong."""
