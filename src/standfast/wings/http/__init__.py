"""HTTP jobs: requests that workers send."""
