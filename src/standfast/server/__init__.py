"""The HTTP door: REST under /api/v1, live notices, metrics, the dashboard. It translates; others decide."""
