"""Packing documents into windows of one length: best fit, cutting, sorting, copying, masks."""
