"""What each warning and error on the untouched real sets is, looked at by hand in its rows.

`right` says what is so and worth knowing; `harmless` what is so and asks for nothing; `wrong` what
is not so. A finding that has no line here is shown as not looked at yet.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple


class Judged(NamedTuple):
    """A verdict on a finding, and what its rows show."""

    verdict: Literal["right", "harmless", "wrong"]
    reason: str


_COPIES = "the same rows word for word"
_ALIKE = "the same but for case, punctuation or a word"
_SORTED = "the file lies in this order, and the split is drawn"
_SERIES = "a series in time: `init` divides it by time"

JUDGED: Mapping[str, Mapping[str, Judged]] = {
    "adult": {
        "exact_duplicates": Judged("right", _COPIES),
        "missing_not_at_random workclass": Judged("right", "the unemployed have none"),
        "missing_not_at_random occupation": Judged("right", "the unemployed have none"),
        "unlikely_values capital_gain": Judged("right", "99999 is where the gain was cut off"),
    },
    "airline": {"ordered_target Passengers": Judged("right", _SERIES)},
    "alpaca": {
        "exact_duplicates output": Judged("right", _COPIES),
    },
    "banking77": {
        "near_duplicates": Judged("right", _ALIKE),
        "ordered_target category": Judged("right", _SORTED),
    },
    "bike, days": {"ordered_target cnt": Judged("right", _SERIES)},
    "bike, hours": {
        "ordered_target cnt": Judged("right", _SERIES),
        "stuck atemp": Judged("right", "one value for the whole of 2012-08-17"),
        "stuck temp": Judged("wrong", "a winter's day within one step of a coarse thermometer"),
        "time_gaps dteday": Judged("right", "hours without a rental have no row"),
        "unlikely_values windspeed": Judged("right", "calm and not measured are both 0"),
    },
    "california": {
        "capped median_house_value": Judged("right", "values are cut off at 500001"),
        "future_rows": Judged("right", "neighbours lie side by side in the file"),
        "ordered_target median_house_value": Judged("right", "neighbours lie side by side"),
    },
    "captions": {
        "class_imbalance label": Judged("right", "2,136 to 9"),
        "exact_duplicates": Judged("right", "the same picture under two code points"),
        "near_duplicates": Judged("right", "one picture in six skin tones"),
        "ordered_target label": Judged("right", _SORTED),
        "rare_class label": Judged("right", "9 rows, of which a split holds out one or two"),
    },
    "elec2": {
        "exact_duplicates": Judged("harmless", "quiet half-hours of a coarse scale"),
        "near_duplicates": Judged("wrong", "half-hours that follow each other, by chance alike"),
        "ordered_target class": Judged("right", _SERIES),
        "outliers nswprice": Judged("harmless", "prices do spike"),
        "outliers vicprice": Judged("harmless", "prices do spike"),
        "stuck nswprice": Judged("right", "one price for a whole day"),
        "stuck transfer": Judged("right", "filled in until the exchange was opened"),
        "stuck vicdemand": Judged("right", "filled in until the exchange was opened"),
        "stuck vicprice": Judged("right", "filled in until the exchange was opened"),
    },
    "etth1": {
        "ordered_target OT": Judged("right", _SERIES),
        **{
            f"stuck {name}": Judged("right", "sensors that repeat a value for days")
            for name in ("HUFL", "HULL", "MUFL", "MULL", "LUFL", "LULL", "OT")
        },
        "unlikely_values LUFL": Judged("right", "one load below zero"),
    },
    "fashion": {"near_duplicates": Judged("right", "one garment photographed twice")},
    "insteval": {
        "conflicting_labels y": Judged("harmless", "ratings: one student, several marks"),
        "exact_duplicates": Judged("harmless", "96 of 21,918 beyond chance"),
    },
    "parkinsons": {
        "ordered_target total_UPDRS": Judged("right", "the rows of a subject lie together"),
        "unlikely_values test_time": Judged("right", "days before the first day"),
    },
    "penguins": {
        "near_duplicates": Judged("harmless", "two birds that differ in the depth of the bill"),
        "ordered_target species": Judged("right", _SORTED),
    },
    "shakespeare": {"other_language": Judged("right", "Italian and Latin in Padua")},
    "sms": {
        "exact_duplicates": Judged("right", _COPIES),
        "mojibake column_2": Judged("right", "Windows-1252 read as Latin-1"),
        "near_duplicates": Judged("right", _ALIKE),
        "other_language column_2": Judged("right", "Bengali, Hindi, Kannada, and Singlish"),
        "short_text column_2": Judged("right", "a smile and nothing else"),
    },
    "titanic": {
        "conflicting_labels Survived": Judged("right", "families and gangs on one ticket"),
        "group_overlap Cabin": Judged("right", "who shared a cabin shared a fate"),
        "group_overlap Ticket": Judged("right", "who shared a ticket shared a fate"),
        "unlikely_values Fare": Judged("right", "15 passengers without a fare"),
    },
    "toolcall": {
        "exact_duplicates conversations": Judged("right", _COPIES),
        "near_duplicates conversations": Judged("right", _ALIKE),
    },
}
"""By set, then by the finding's kind and columns."""
