"""Ways to climb: what they climb, and why, is known above."""
