"""Codecs: how objects of a class become content that can be sent, and are created from it again.

`codec_registry` is what a script uses. The other modules hold the codecs that are shipped, each for
the classes of one library, and are imported when that library's classes are first met.
"""
