"""The form in which texts are compared: how Unicode, white space, case and signs are folded."""
