"""Search over values of a contract: trials as fresh processes, and one judged winner."""
