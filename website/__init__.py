"""The build of the documentation site: `script/docs`."""
