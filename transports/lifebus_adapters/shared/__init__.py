"""What all adapters are made of: rules, parsing, typed reads, assets."""
