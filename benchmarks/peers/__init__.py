"""Peers, each at the same work as acx; they run in environments of their own."""
