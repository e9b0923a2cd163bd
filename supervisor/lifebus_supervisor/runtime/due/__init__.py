"""What is due when: keys in order of their times, with one timer for all of them."""
