"""One program per side; each answers a question by printing one JSON object."""
