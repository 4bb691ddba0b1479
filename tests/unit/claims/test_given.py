"""What claims are measured on leaves nothing behind."""

import gc

from headwater.claims.given import Given


def test_its_folder_is_gone_with_it_whether_it_is_closed_or_not():
    with Given() as closed:
        folder = closed._folder
        assert folder.is_dir()
    assert not folder.exists()
    left = Given()
    folder = left._folder
    del left
    gc.collect()
    assert not folder.exists()
