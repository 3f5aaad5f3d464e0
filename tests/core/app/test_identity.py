"""Which disk is meant: every given key must agree, and nothing is guessed."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth_core.app.identity import Identity, agrees, declared, disk_name, from_spec, match, matches, names_same
from berth_core.errors import IdentityError, InputError
from tests.core.app.disk_samples import device

SDB, SDC = device("sdb"), device("sdc")


def test_one_strong_key_finds_the_disk():
    assert match(Identity(serial="SERIAL-sdb"), [SDB, SDC]) is SDB
    assert match(Identity(wwn="0x5000sdc"), [SDB, SDC]) is SDC
    assert match(Identity(by_path="pci-0000:00:1f.2-sdc"), [SDB, SDC]) is SDC


def test_every_given_key_must_agree():
    assert match(Identity(serial="SERIAL-sdb", wwn="0x5000sdc"), [SDB, SDC]) is None
    assert match(Identity(serial="SERIAL-sdb", size=1), [SDB, SDC]) is None
    assert match(Identity(serial="SERIAL-sdb", model="Other"), [SDB]) is None


@pytest.mark.parametrize("spelling", ["0x5000SDB", "naa.5000sdb", "5000sdb", " 0x5000sdb "])
def test_a_wwn_is_the_same_in_every_spelling(spelling):
    assert match(Identity(wwn=spelling), [SDB, SDC]) is SDB


def test_a_model_is_the_same_in_the_spelling_of_udev_and_of_lsblk():
    disk = device(model="Samsung_SSD_870")
    assert matches(Identity(serial="SERIAL-sdb", model="Samsung SSD 870"), disk)


@pytest.mark.parametrize("identity", [Identity(), Identity(model="Disk"), Identity(size=4 << 30)])
def test_a_weak_identity_is_refused_with_the_candidates(identity):
    with pytest.raises(IdentityError, match="too weak") as refused:
        match(identity, [SDB, SDC])
    assert refused.value.details["candidates"] == ["/dev/sdb", "/dev/sdc"]
    assert "SERIAL-sdb" in refused.value.message
    assert "SERIAL-sdc" in refused.value.message


@pytest.mark.promise
def test_a_key_of_blanks_is_no_key_for_a_disk_that_has_none():
    """Each such disk would agree with it: the next one that is put in would be taken for it."""
    nameless = device("sdb", serial="", wwn="")
    for blank in (Identity(serial=" ", size=nameless["size"]), Identity(wwn="naa.", size=nameless["size"])):
        with pytest.raises(IdentityError, match="too weak"):
            match(blank, [nameless])
        with pytest.raises(IdentityError, match="too weak"):
            disk_name("h1", blank)
        assert not names_same(blank, blank)
    assert Identity(serial=" ", model="\t", wwn="0x1").to_spec() == {"wwn": "0x1"}


def test_a_serial_that_two_disks_carry_is_refused_until_another_key_tells_them_apart():
    twins = [device("sdb", serial="S"), device("sdc", serial="S")]
    with pytest.raises(IdentityError, match="2 disks carry it") as refused:
        match(Identity(serial="S"), twins)
    assert refused.value.details["candidates"] == ["/dev/sdb", "/dev/sdc"]
    assert match(Identity(serial="S", wwn="0x5000sdc"), twins) is twins[1]


def test_a_declared_path_is_its_name_below_by_path():
    assert declared({"by_path": "/dev/disk/by-path/pci-1"}, None).by_path == "pci-1"
    with pytest.raises(InputError, match="by-path"):
        declared({"by_path": "/dev/sdb"}, None)


def test_spec_and_identity_are_the_same_thing():
    identity = Identity("0x5", "S", "M", 7, "pci-1")
    assert from_spec(identity.to_spec()) == identity
    assert Identity(serial="S").to_spec() == {"serial": "S"}


def test_a_part_agrees_with_the_whole_and_names_it_by_a_strong_key_alone():
    whole = Identity("0x5", "S", "M", 7)
    assert agrees(Identity(model="M"), whole)
    assert not names_same(Identity(model="M"), whole)
    assert names_same(Identity(serial="S"), whole)
    assert not names_same(Identity(serial="S", size=8), whole)


def test_the_name_is_that_of_the_strongest_key_and_stays_when_more_becomes_known():
    assert disk_name("h1", Identity(wwn="0xAB")) == disk_name("h1", Identity(wwn="naa.ab", serial="S", size=3))
    assert disk_name("h1", Identity(serial="S")) != disk_name("h2", Identity(serial="S"))
    with pytest.raises(IdentityError):
        disk_name("h1", Identity(model="M", size=3))


@given(st.text(max_size=300), st.text(min_size=1, max_size=40).filter(str.strip))
def test_a_name_is_always_a_dns_subdomain(node, serial):
    made = disk_name(node, Identity(serial=serial))
    assert len(made) <= 253
    assert re.fullmatch(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?", made)


KEYS = st.sampled_from(["", "a", "b"])
IDENTITIES = st.builds(Identity, KEYS, KEYS, KEYS, st.sampled_from([None, 1, 2]), st.just(""))


@given(IDENTITIES, st.lists(st.tuples(KEYS, KEYS, KEYS, st.sampled_from([1, 2])), max_size=4))
def test_match_never_guesses(identity, disks):
    """It answers with a disk only when that is the one disk with every given key, and a strong one among them."""
    found = [device(f"sd{i}", wwn=w, serial=s, model=m, size=z) for i, (w, s, m, z) in enumerate(disks)]
    try:
        answer = match(identity, found)
    except IdentityError:
        assert not identity.is_strong() or sum(matches(identity, each) for each in found) > 1
    else:
        assert identity.is_strong()
        assert [each for each in found if matches(identity, each)] == ([answer] if answer else [])
