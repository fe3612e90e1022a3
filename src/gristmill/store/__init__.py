"""Where bytes rest: parts that appear whole or not at all, the manifest that proves them, and the
way they come in.
"""
