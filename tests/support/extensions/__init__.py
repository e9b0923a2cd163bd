"""What the tests of extensions share."""
