"""Webhooks into jobs: GitHub's, Standard Webhooks, CloudEvents and plain JSON, by what the settings file says."""
