"""What builds the documentation site: `script/docs`."""
