"""Edits belong to the thread or task that applies them, and blocks of edits end in any order."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import small
import torch

from glassformer import inside

TEXT = "time flies like an arrow"


def logits(model):
    with torch.no_grad():
        return model(torch.tensor([model.tokenizer.encode(TEXT).ids])).logits


def test_another_thread_runs_the_model_without_the_edits():
    model = small.decoder()
    plain = logits(model)
    both_ran = Barrier(2, timeout=30)

    def edited(layer):
        with model.edit(*inside.ablate_layer(layer, model.spec)):
            both_ran.wait()
            found = logits(model)
            both_ran.wait()
        return found

    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(edited, (0, 1))
    for layer, found in enumerate((first, second)):
        with model.edit(*inside.ablate_layer(layer, model.spec)):
            assert torch.equal(logits(model), found)
            with ThreadPoolExecutor(1) as pool:
                assert torch.equal(pool.submit(logits, model).result(), plain)
    assert not torch.equal(first, plain)
    assert not torch.equal(first, second)


def test_a_generation_in_another_thread_is_not_edited():
    model = small.decoder()
    options = {"max_new_tokens": 8, "min_new_tokens": 8}
    alone = model.generate(TEXT, **options).tokens
    with model.edit(*inside.ablate_layer(0, model.spec)):
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(lambda: model.generate(TEXT, **options).tokens).result() == alone
        edited = model.generate(TEXT, **options).tokens
    assert edited != alone


def test_another_task_is_not_edited():
    model = small.decoder()
    plain = logits(model)

    async def edited():
        with model.edit(*inside.ablate_layer(0, model.spec)):
            await asyncio.sleep(0)
            return logits(model)

    async def both():
        task = asyncio.create_task(edited())
        await asyncio.sleep(0)  # the task has begun its block
        return logits(model), await task

    here, there = asyncio.run(both())
    assert torch.equal(here, plain)
    assert not torch.equal(there, plain)


def test_blocks_that_do_not_nest_leave_the_model_as_it_was():
    model = small.decoder()
    plain = logits(model)
    first = model.edit(*inside.ablate_layer(0, model.spec))
    second = model.edit(*inside.ablate_layer(1, model.spec))
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    with model.edit(*inside.ablate_layer(1, model.spec)):
        pass
    here = logits(model)
    second.__exit__(None, None, None)
    with model.edit(*inside.ablate_layer(1, model.spec)):
        assert torch.equal(logits(model), here)
    assert torch.equal(logits(model), plain)


def test_a_block_that_ends_in_another_thread_ends_everywhere():
    model = small.decoder()
    plain = logits(model)
    block = model.edit(*inside.ablate_layer(0, model.spec))
    block.__enter__()
    with ThreadPoolExecutor(1) as pool:
        pool.submit(block.__exit__, None, None, None).result()
    with model.edit(inside.ablate_heads(1, [])):  # edits are in use again
        assert torch.equal(logits(model), plain)


def test_a_compiled_model_takes_edits():
    model = small.decoder()
    compiled = torch.compile(model, backend="eager")
    ids = torch.tensor([model.tokenizer.encode(TEXT).ids])
    with torch.no_grad():
        plain = compiled(ids).logits
        with model.edit(*inside.ablate_layer(0, model.spec)):
            edited = compiled(ids).logits
            assert torch.allclose(edited, model(ids).logits, atol=1e-6)
        assert torch.equal(compiled(ids).logits, plain)
    assert not torch.allclose(edited, plain, atol=1e-3)


def test_threads_that_generate_look_and_edit_give_what_each_gives_alone():
    model = small.decoder()

    def work(number):
        text = f"{TEXT} {'like ' * (number % 3)}"
        if number % 3 == 0:
            return model.generate(text, max_new_tokens=12).tokens
        if number % 3 == 1:
            return model.look(text).attention[0, 0].array.tolist()
        with model.edit(*inside.ablate_layer(number % 2, model.spec)):
            return model.generate(text, max_new_tokens=12).tokens

    numbers = list(range(24))
    alone = [work(number) for number in numbers]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(work, numbers)) == alone
