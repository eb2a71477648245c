"""What is known of each kind of data, behind one interface."""
