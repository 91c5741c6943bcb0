"""Rankings: leaderboards, tournaments, contests."""
