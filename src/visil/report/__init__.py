"""Results for people and other programs: HTML reports, tables, timelines."""
