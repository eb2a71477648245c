"""Modules with cases of advice that is read from a refusal, each with its `CASES`."""

from __future__ import annotations

from advised import (
    pictures,
    planning,
    reading,
    rules_of_captions,
    rules_of_chats,
    rules_of_data,
    rules_of_encoders,
    rules_of_pairs,
    rules_of_purposes,
    rules_of_questions,
    rules_of_rankings,
    rules_of_series,
    rules_of_several,
    rules_of_targets,
    rules_of_teachers,
    rules_of_text,
    rules_of_text_pairs,
    rules_of_training,
    shapes,
    splitting,
)

TABLES = (
    shapes,
    rules_of_data,
    rules_of_encoders,
    rules_of_pairs,
    rules_of_purposes,
    rules_of_captions,
    rules_of_text_pairs,
    rules_of_questions,
    rules_of_rankings,
    rules_of_series,
    rules_of_several,
    rules_of_targets,
    rules_of_teachers,
    rules_of_training,
    rules_of_text,
    rules_of_chats,
    reading,
    splitting,
    planning,
    pictures,
)
