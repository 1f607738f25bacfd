"""The dashboard: server-rendered pages for people, live if the browser runs scripts. It makes no decisions."""
