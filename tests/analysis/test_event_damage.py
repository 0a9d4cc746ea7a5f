import random
from itertools import pairwise

import pytest
from event_files import histogram, hparams, packed, record, simple, tensor, text, write

from analysis.records import read_blocks
from analysis.scalars import read_event_file

COUNT = 200


@pytest.fixture
def sound(tmp_path):
    """200 records of a tag whose value is its step, and the place of each in the file."""
    path = write(tmp_path / "e", [simple("x", step, step) for step in range(COUNT)])
    content = path.read_bytes()
    begins, position = [], 0
    while position < len(content):
        begins.append(position)
        position += 16 + int.from_bytes(content[position : position + 8], "little")
    return path, content, [*begins[1:], position]  # without the version record


def survivors(path, content):
    path.write_bytes(content)
    read = read_event_file(path)
    series = read.series.get("x")
    steps = [] if series is None else series.step.tolist()
    assert series is None or series.value.tolist() == [float(step) for step in steps]
    return steps, read.damages


def test_a_file_cut_anywhere_keeps_every_whole_record(sound):
    path, content, begins = sound
    for cut in random.Random(1).sample(range(begins[0], len(content)), 400):
        steps, damages = survivors(path, content[:cut])
        whole = sum(end <= cut for end in begins[1:])
        assert steps == list(range(whole))
        lost = cut - begins[whole]
        assert [(damage.offset, damage.size) for damage in damages] == (
            [(begins[whole], lost)] if lost else []
        )


def test_a_file_cut_at_each_byte_of_its_last_record(sound):
    path, content, begins = sound
    for cut in range(begins[-2] + 1, len(content)):
        steps, (damage,) = survivors(path, content[:cut])
        assert steps == list(range(COUNT - 1))
        assert (damage.offset, damage.size) == (begins[-2], cut - begins[-2])
        assert "incomplete" in damage.reason or "header" in damage.reason


def test_a_flipped_bit_costs_only_its_record(sound):
    path, content, begins = sound
    generator = random.Random(2)
    for _ in range(600):
        place = generator.randrange(begins[0], len(content))
        broken = bytearray(content)
        broken[place] ^= 1 << generator.randrange(8)
        index = sum(end <= place for end in begins[1:])
        steps, damages = survivors(path, bytes(broken))
        if 8 <= place - begins[index] < 12:  # the length's checksum: the payload's still proves it
            assert (steps, damages) == (list(range(COUNT)), [])
            continue
        assert steps == [step for step in range(COUNT) if step != index]
        assert [(damage.offset, damage.size) for damage in damages] == [
            (begins[index], begins[index + 1] - begins[index])
        ]


@pytest.mark.parametrize("change", ["removed", "inserted", "overwritten", "zeroed"])
def test_a_damaged_stretch_costs_only_the_records_it_touches(sound, change):
    path, content, begins = sound
    generator = random.Random(change)
    for _ in range(100):
        start = generator.randrange(begins[0], len(content) - 300)
        size = generator.randrange(1, 300)
        filling = {
            "removed": b"",
            "inserted": generator.randbytes(size) + content[start : start + size],
            "overwritten": generator.randbytes(size),
            "zeroed": bytes(size),
        }[change]
        steps, damages = survivors(path, content[:start] + filling + content[start + size :])
        untouched = [
            step
            for step in range(COUNT)
            if begins[step + 1] <= start or begins[step] >= start + size
        ]
        assert set(untouched) <= set(steps)
        assert steps == sorted(steps)
        assert bool(damages) or change == "removed" or len(steps) == COUNT
        file_size = path.stat().st_size
        assert sum(damage.size for damage in damages) <= file_size


def test_every_byte_is_either_read_or_reported(sound):
    path, content, _ = sound
    generator = random.Random(3)
    for _ in range(100):
        broken = bytearray(content)
        for place in generator.sample(range(len(content)), generator.randrange(1, 30)):
            broken[place] ^= 0xFF
        path.write_bytes(broken)
        damages = []
        blocks = list(read_blocks(path, damages, block_size=generator.randrange(16, 20_000)))
        read = sum(int(block.lengths.sum()) + 16 * len(block.lengths) for block in blocks)
        assert read + sum(damage.size for damage in damages) == len(content)
        spans = sorted((damage.offset, damage.offset + damage.size) for damage in damages)
        assert all(a[1] <= b[0] for a, b in pairwise(spans))


def test_a_valid_record_without_an_event_is_reported(tmp_path):
    path = tmp_path / "e"
    good = record(simple("x", 1, 2.0).SerializeToString())
    path.write_bytes(
        good + record(b"\xff\xff\xff") + record(b"\x2a\x05\x0a\x03\x0a\x01\xff") + good
    )
    read = read_event_file(path)
    assert read.series["x"].value.tolist() == [2.0, 2.0]
    assert [damage.offset for damage in read.damages][:1] == [len(good) + 12]
    assert "no event" in str(read.damages[0])


def test_a_valid_checksum_around_garbage_never_raises(tmp_path):
    """Events of every kind with bytes changed, and the checksums made right again."""
    generator = random.Random(4)
    kinds = [
        simple("x", 1, 2.0),
        tensor("x", 300, 2.0),
        tensor("x", 3, 7, "DT_INT64"),
        tensor("x", 3, 0, "DT_HALF", content=b"\x00\x3e"),
        packed(5, {"a": 1.0, "b": 2.0}),
        text("config", "a = 1"),
        histogram("h", 1, 4),
        hparams({"gamma": 0.9, "name": "x"}),
    ]
    payloads = [event.SerializeToString() for event in kinds]
    path = tmp_path / "e"
    for _ in range(500):
        broken = []
        for payload in payloads:
            octets = bytearray(payload)
            for place in generator.sample(range(len(octets)), generator.randrange(1, 4)):
                octets[place] = generator.randrange(256)
            broken.append(record(bytes(octets)))
        path.write_bytes(b"".join([*broken, record(payloads[0])]))
        assert read_event_file(path).series["x"].value[-1] == 2.0


@pytest.mark.parametrize(
    "content", [b"", b"\0", bytes(100), b"not an event file, but a text\n" * 9]
)
def test_empty_and_foreign_files_give_no_points(tmp_path, content):
    steps, damages = survivors(tmp_path / "e", content)
    assert steps == []
    assert sum(damage.size for damage in damages) == len(content)
