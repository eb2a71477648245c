"""What a teacher or a reference model predicts of the training rows."""
