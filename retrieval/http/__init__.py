"""An index over HTTP: server and client."""
