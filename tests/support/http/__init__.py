"""HTTP servers on loopback: scripted, logging, collecting."""
