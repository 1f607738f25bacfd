"""What a refusal for lack of disk says."""

from standfast.store.room import low_disk


def test_a_disk_with_less_than_nothing_left_has_nothing_free():
    assert str(low_disk(-262144, 1024, 2048, doubtful=False)).startswith("the disk is low (0 bytes free; ")
