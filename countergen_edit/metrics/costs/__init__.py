"""What an edit costs: agreement that is lost, and harm to neutral text."""
