"""GGUF, llama.cpp's file format: read a file as a folder that transformers loads, and write one from it.

https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""
