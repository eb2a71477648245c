"""Chats: messages, templates, and the tokens of their answers."""
