"""The audit chain: every decision that acts, each link sealed by the next."""
