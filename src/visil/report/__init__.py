"""What was found, for people: the HTML report and tables."""
