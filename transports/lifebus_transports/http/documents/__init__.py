"""What describes the gateway to programs: OpenAPI for its routes, AsyncAPI for its streams."""
