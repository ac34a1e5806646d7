"""Recipes from configuration files: what each reader takes from one, and what it refuses."""
