"""An index for a stream: is this text a duplicate of an earlier one?"""
