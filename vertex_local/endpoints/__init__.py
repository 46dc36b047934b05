"""Endpoints: deployed models as prediction servers, and the traffic between them."""
