"""Where signs of agents come from: files that grow, directories that change, processes that live.

Everything here is synchronous and keeps no schedule of its own: whoever calls decides when.
"""
