"""Mixtures of sources: rules for shares, their plan, and their choice by measurement."""
