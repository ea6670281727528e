"""Sizes, speeds and times, as they are written and read."""

import pytest

from launcher.shared import bytes_text, parse_bandwidth, parse_bytes, parse_seconds, seconds_text


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("40GiB", 40 * 2**30),
        ("1.5 MiB", 3 * 2**19),
        ("2GB", 2 * 10**9),
        ("512", 512),
        ("1e3", 1000),
    ],
)
def test_sizes(text, count):
    assert parse_bytes(text) == count


@pytest.mark.parametrize(
    ("text", "seconds"), [("20us", 20e-6), ("20µs", 20e-6), ("1.5 ms", 1.5e-3), ("0", 0), ("2s", 2)]
)
def test_times(text, seconds):
    assert parse_seconds(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["12GiB/s", "12GiB", str(12 * 2**30)])
def test_bandwidths(text):
    assert parse_bandwidth(text) == 12 * 2**30


@pytest.mark.parametrize("text", ["", "GiB", "-1GiB", "40G", "40gib", "4 0", "nan", "1GiB/s"])
def test_what_is_no_size(text):
    with pytest.raises(ValueError, match="not a number of bytes"):
        parse_bytes(text)


@pytest.mark.parametrize("text", ["0", "0GiB/s", "20us", "1GiB/m"])
def test_what_is_no_bandwidth(text):
    with pytest.raises(ValueError, match="not a bandwidth"):
        parse_bandwidth(text)


def test_what_is_no_time():
    with pytest.raises(ValueError, match="'20GiB' is not a length of time"):
        parse_seconds("20GiB")


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.00 KiB"),
        (10 * 2**20, "10.0 MiB"),
        (700 * 2**20, "700 MiB"),
        (3 * 2**29, "1.50 GiB"),
    ],
)
def test_sizes_are_printed_with_three_digits(count, text):
    assert bytes_text(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0"),
        (20e-6, "20.0 µs"),
        (0.00999, "9.99 ms"),
        (0.009996, "10.0 ms"),
        (0.25, "250 ms"),
        (1.5, "1.50 s"),
    ],
)
def test_times_are_printed_with_three_digits(seconds, text):
    assert seconds_text(seconds) == text
