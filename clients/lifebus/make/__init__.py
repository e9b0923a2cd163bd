"""A second client of flows, after the manner of make: targets with needs and commands, and no words of Loa's."""
