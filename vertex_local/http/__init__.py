"""HTTP: connections, bodies, who may ask, and requests that are sent again."""
