"""What is known of one supervised session: five structs with a pure reducer each, and the monitor that holds them."""
