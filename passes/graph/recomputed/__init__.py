"""Passes on graphs that decide what is computed anew for each reader and what once, one a file.

Input and output are functions of cuesta ops that compute the same.
"""
