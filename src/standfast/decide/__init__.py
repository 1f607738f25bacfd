"""What happens next: pure functions from values to decisions; time and chance are arguments."""
