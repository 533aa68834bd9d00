"""Checks that try to prove us wrong: audits of claims, and the conformance suite for algorithms."""
