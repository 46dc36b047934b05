"""Rules for requests, from the comments of Vertex AI's protos.

`python -m tools.proto_rules` writes `vertex_local/api/comments.json`, and prints which sentences
have a rule and why others have none.
"""
