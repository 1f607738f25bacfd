"""The dashboard: pages drawn on the server for people, live where the browser runs scripts. It decides nothing."""
