"""What every door uses: accepting work, looking at it, judging its health."""
