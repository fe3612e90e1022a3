"""The phases, in order: what happens to one raw shard, and what to all of them. pipeline.py tells
the story.
"""
