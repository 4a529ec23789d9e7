"""What writes files of the project: documentation, the OpenAPI document, manifests."""
