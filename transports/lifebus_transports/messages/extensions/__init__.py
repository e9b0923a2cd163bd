"""Extensions: the bodies of their verbs, and what passes between the broker and the program that runs them."""
