"""HTTP jobs: requests that the queue sends."""
