"""The rule for tiles of matrix products takes one of those that were fastest on an H200."""

from __future__ import annotations

import pytest

from cuesta.passes.libraries.products.tiles import plan_of_ragged_rows, plan_with_epilogue, plans, taken_in_turns


@pytest.mark.parametrize(
    ("batch", "m", "n", "k", "fastest"),
    [
        (1, 4096, 4096, 4096, {"128x256x64/8/3", "128x256x64/8/4"}),
        (1, 8192, 30522, 768, {"128x256x64/8/3"}),
        (1, 8192, 768, 3072, {"128x128x64/8/4", "128x128x64/4/4"}),
        (1, 2048, 2048, 8192, {"128x256x64/8/3", "128x256x64/8/4"}),
        (1, 8, 8192, 2048, {"16x64x128/4/5"}),
        (1, 16, 8192, 2048, {"16x64x128/4/5"}),
        (1, 512, 512, 16384, {"128x128x64/4/4 in 8 parts", "128x128x64/8/4 in 8 parts"}),
        # Timed with four stages; no step would fill more than these.
        (192, 512, 512, 64, {"64x128x64/4/2", "128x64x64/4/2"}),
        (64, 128, 128, 128, {"64x128x64/4/3", "128x64x64/4/3"}),
        # Of nine tiles, on an H100: 755 µs with 4 warps and 3 stages, 884 with 8 and 2.
        (1, 16384, 30522, 128, {"128x128x64/4/3"}),
        (1, 1000, 777, 1024, {"64x128x64/4/4", "128x64x64/4/4"}),
    ],
)
def test_the_rule_takes_what_was_fastest(batch: int, m: int, n: int, k: int, fastest: set[str]) -> None:
    assert str(plans(batch, m, n, k, 2)[0]) in fastest


def test_elements_that_are_loaded_one_by_one_have_small_tiles() -> None:
    assert str(plans(1, 1000, 777, 1003, 2, scattered=True)[0]) == "64x64x64/4/3"
    assert str(plans(1, 1024, 1024, 1024, 4, scattered=True)[0]) == "64x64x32/4/3"
    assert all(plan.tile.m * plan.tile.n <= 64 * 64 for plan in plans(1, 4096, 4096, 4097, 2, scattered=True))


def test_small_products_of_a_short_sum_have_one_warp() -> None:
    assert str(plans(25088, 16, 6, 16, 2, scattered=True)[0]) == "16x16x16/1/2"
    assert str(plans(25088, 16, 16, 512, 2)[0]).startswith("16x16x512/4/")
    assert str(plans(4096, 32, 64, 32, 2)[0].tile).startswith("32x64x32/4/")


def test_programs_with_little_to_do_take_turns() -> None:
    def tile(*product: int) -> str:
        return str(taken_in_turns(plans(*product, scattered=True)[0], *product))

    assert tile(25088, 16, 6, 16, 2) == "16x16x16/1/2 on 2112"
    assert tile(2048, 16, 6, 16, 2) == "16x16x16/1/2"  # few enough for a program each
    assert " on " not in tile(25088, 64, 64, 64, 2)


@pytest.mark.parametrize("scattered", [False, True])
@pytest.mark.parametrize(
    ("m", "n", "k"), [(9, 3, 32 * 196 * 196), (256, 2, 65536), (64, 147, 32 * 112 * 112), (128, 12, 70001)]
)
def test_a_long_sum_of_few_results_has_programs_for_all_multiprocessors(
    m: int, n: int, k: int, scattered: bool
) -> None:
    plan = plans(1, m, n, k, 2, scattered)[0]
    blocks = -(-m // plan.tile.m) * -(-n // plan.tile.n)
    assert 66 < blocks * plan.parts <= 528
    whole = plan.whole(k)
    assert whole % plan.parts == 0
    assert 0 <= k - whole < k // 100
    assert scattered or whole // plan.parts % 8 == 0


def test_few_columns_are_no_rows_for_wide_blocks() -> None:
    assert plan_of_ragged_rows(16384, 30522) is not None
    assert plan_of_ragged_rows(32 * 196 * 196, 9) is None


@pytest.mark.parametrize("sizes", [(1, 2, 2, 2), (3, 5, 33, 130), (1, 4096, 16, 4096), (1, 16, 16, 1 << 16)])
@pytest.mark.parametrize("scattered", [False, True])
def test_no_tile_is_larger_than_the_product_wants(sizes: tuple[int, int, int, int], scattered: bool) -> None:
    _, m, n, k = sizes
    for width in (2, 4):
        for plan in plans(*sizes, width, scattered):
            tile = plan.tile
            assert all(t < 2 * max(size, 16) for t, size in ((tile.m, m), (tile.n, n), (tile.k, k)))
            assert k % plan.parts == 0


def test_rows_that_share_memory_are_not_moved_again() -> None:
    # A gradient of a grouped convolution: by what its windows seem to have, memory is the limit for any tile.
    seeming, real = (plans(16, 48, 912, 4136, 2, moved=moved)[0].tile for moved in (None, 12_000_000))
    assert (seeming.n, real.n) == (256, 128)


def test_a_computed_factor_is_made_for_few_blocks() -> None:
    # A norm and silu: 40 additions an element. Of 256 results, each block along them makes the factor anew.
    plan, plain = (plan_with_epilogue(1, 262144, 256, 64, 2, computed) for computed in (40, 0))
    assert plan is not None and plain is not None
    assert plan.tile.n >= plain.tile.n
    # 64 images of 14x14: the factor of 1280 channels is made three times for 320 results, which a library does once.
    assert plan_with_epilogue(64, 196, 320, 1280, 2, 20) is None
    # Blocks have pixels of one image, which leaves tiles of 128 rows half empty where there are 49.
    small = plan_with_epilogue(64, 49, 64, 32, 2, 4)
    assert small is None or small.tile.m <= 64
