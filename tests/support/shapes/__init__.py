"""What each command prints with `--json`, as types: docs/json is generated from them."""
