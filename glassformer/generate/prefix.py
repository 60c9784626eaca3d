"""Prefix cache: common beginnings of prompts are read only once.

A row reads only the end of its prompt. The keys and values before it are copied from a text that
was read earlier. All rows of a pass read the same number of tokens, so that there is no gap
between: the result is as if a padded batch were read in two chunks, the first of which is cached.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from threading import RLock
from typing import NamedTuple

import torch
from torch import Tensor

from glassformer.core import Cache, Transformer
from glassformer.core.versioning import ModelVersion
from glassformer.spec import AttentionPattern, BlockSpec

LEAST = 32  # minimum tokens of a prefix; reading fewer is as fast as a lookup
LEAST_ON_GPU = 512  # the same minimum on a GPU
WORTH = 64  # tokens that a separate pass must save
READS = 100  # of the linear layers' weights, by a call of which a check of all weights is below 2%
A_READ = 8  # tokens of a prompt that take as long as a read of the weights
Ids = tuple[int, ...]
Read = Callable[[Sequence[Ids], Cache], Tensor]  # reads rows into a cache; returns logits


class CachedPrefix(NamedTuple):
    """Text that was read, with its keys and values."""

    ids: Ids
    cache: Cache  # one row, without padding

    @property
    def bytes(self) -> int:
        return len(self.ids) * bytes_a_token(self.cache)


def can_share(net: Transformer) -> bool:
    """Returns whether prefixes can be shared in this model.

    The state of a prefix must consist only of keys and values, one of each per token, that depend
    neither on what follows nor on the padding.
    """
    stack = net.spec.decoder
    if stack is None or net.spec.encoder is not None:
        return False
    if net.decoder is None or net.decoder.active_wrapper is not None:
        return False  # an adapter adds more to the cache than the text
    table = stack.embed.position
    return (
        stack.memory is None
        and stack.convolution is None
        and not stack.scores_segments
        and (table is None or table.padding_idx is None)
        and all(
            isinstance(layer, BlockSpec)
            and isinstance(layer.pattern, AttentionPattern)
            and (layer.pattern.right, layer.pattern.block) == (0, None)
            and layer.attention.compression_factor is None
            for layer in stack.blocks
        )
    )


class PrefixCache:
    """Least-recently-used cache of texts that a model has read, up to a limit in bytes.

    All texts are dropped if the model has changed.
    """

    def __init__(self, limit: int = 0, least: int = LEAST) -> None:
        self.limit, self.least = limit, least
        self.texts: dict[Ids, CachedPrefix] = {}  # most recently used last
        self.net: ModelVersion | None = None
        self.lock = RLock()

    def __reduce__(self) -> tuple[type[PrefixCache], tuple[()]]:
        """Makes a copy, or a pickled cache, empty."""
        return PrefixCache, ()

    @property
    def bytes(self) -> int:
        return sum(known.bytes for known in self.known())

    def forget(self) -> None:
        with self.lock:
            self.texts, self.net = {}, None

    def open(self, net: Transformer, limit: int, prompts: Sequence[Ids], new: int) -> PrefixCache:
        """Returns the cache of this model in its current state, for one call.

        A call that is too short for a check gets an empty cache. If the model changes, a call in
        another thread keeps the texts that it began with.

        Args:
            net: The model.
            limit: The limit in bytes.
            prompts: The prompts of the call.
            new: The maximum number of new tokens of a prompt.
        """
        self.limit, self.least = limit, least_for(net)
        if not (is_worth_a_check(prompts, new) or self.has_read(prompts)):
            return PrefixCache(limit, self.least)
        version = ModelVersion(net)  # without the lock, as this reads the weights
        with self.lock:
            if self.net is None or not self.net.same_as(version):
                self.texts, self.net = {}, version
            self._drop()
            opened = PrefixCache(limit, self.least)
            opened.texts, opened.net, opened.lock = self.texts, self.net, self.lock
            return opened

    def is_of(self, net: Transformer) -> bool:
        return self.net is not None and self.net.matches(net)

    def known(self) -> tuple[CachedPrefix, ...]:
        with self.lock:
            return tuple(self.texts.values())

    def helps(self, prompts: Sequence[Ids]) -> bool:
        """Returns whether some prompts have a common prefix, or one with a cached text."""
        return bool(shared(sorted(prompts), least=self.least)) or self.has_read(prompts)

    def has_read(self, prompts: Sequence[Ids]) -> bool:
        """Returns whether a prompt has a common prefix with a cached text."""
        known = self.known()
        return any(longest(prompt[:-1], known)[0] >= self.least for prompt in prompts)

    def keep(self, known: CachedPrefix) -> None:
        if len(known.ids) < self.least or known.bytes > self.limit:
            return
        with self.lock:
            for ids in [ids for ids in self.texts if known.ids[: len(ids)] == ids]:
                del self.texts[ids]  # a prefix of the new text
            self.texts[known.ids] = known
            self._drop()

    def touch(self, known: CachedPrefix) -> None:
        with self.lock:
            if self.texts.pop(known.ids, None) is not None:
                self.texts[known.ids] = known

    def _drop(self) -> None:
        while self.texts and self.bytes > self.limit:
            del self.texts[next(iter(self.texts))]


def least_for(net: Transformer) -> int:
    """Returns the minimum number of tokens of a shared prefix on the model's device."""
    return LEAST if next(net.parameters()).device.type == "cpu" else LEAST_ON_GPU


def is_worth_a_check(prompts: Sequence[Ids], new: int) -> bool:
    """Returns whether a call takes so long that the checksum of the weights is less than 2% of it.

    Args:
        prompts: The prompts of the call.
        new: The maximum number of new tokens of a prompt; each reads the weights as the checksum
            does.
    """
    return new + sum(map(len, prompts)) // A_READ >= READS


def read_once(
    prefix_cache: PrefixCache, prompts: Sequence[Ids], read: Read
) -> tuple[Cache, Tensor]:
    """Returns the cache of all prompts, in their order, and their next-token logits."""
    heads: list[CachedPrefix] = []
    for head in shared(sorted(prompts), least=prefix_cache.least):
        there, known = longest(head, (*heads, *prefix_cache.known()))
        if len(head) - there >= prefix_cache.least:
            cache = laid([(known, there)], len(head) - there)
            read([head[there:]], cache)
            heads.append(taken(cache, 0, head))
            prefix_cache.keep(heads[-1])
    places = [longest(prompt[:-1], (*heads, *prefix_cache.known())) for prompt in prompts]
    places = [(n, known) if n >= prefix_cache.least else (0, None) for n, known in places]
    for _, known in places:
        if known is not None:
            prefix_cache.touch(known)
    needs = [len(prompt) - n for prompt, (n, _) in zip(prompts, places, strict=True)]
    groups = alike(needs) if any(n for n, _ in places) else [list(range(len(prompts)))]
    whole: Cache | None = None
    logits: list[Tensor] = []
    for group in groups:
        new = max(needs[row] for row in group)
        parts = [(places[row][1], max(0, len(prompts[row]) - new)) for row in group]
        cache = laid(parts, new)
        logits.append(read([prompts[row][-new:] for row in group], cache))
        room = prefix_cache.limit // bytes_a_token(cache)
        for at, row in enumerate(group):
            news = len(prompts) == 1 or 2 * places[row][0] < len(prompts[row])
            if news and prefix_cache.least <= len(prompts[row]) <= room:
                prefix_cache.keep(taken(cache, at, prompts[row]))
                room -= len(prompts[row])
        if whole is None:
            whole = cache
        else:
            whole.join(cache)
    assert whole is not None
    order = [row for group in groups for row in group]
    if order == sorted(order):
        return whole, torch.cat(logits)
    back = torch.tensor(order, device=whole.device).argsort()
    whole.select(back)
    return whole, torch.cat(logits)[back]


def shared(prompts: Sequence[Ids], *, least: int, have: int = 0, at: int = 0) -> list[Ids]:
    """Returns common prefixes of several of the sorted prompts, shorter before longer.

    `have` tokens are already covered, and all prompts agree up to `at`.
    """
    found: list[Ids] = []
    for following, some in groupby(prompts, key=lambda prompt: prompt[at : at + 1]):
        group = list(some)
        if not following or len(group) < 2:
            continue
        end = common(group[0], group[-1])
        worth = end - have >= least and (len(group) - 1) * (end - have) >= WORTH
        found += [group[0][:end]] if worth else []
        found += shared(group, least=least, have=end if worth else have, at=end)
    return found


def alike(needs: Sequence[int]) -> list[list[int]]:
    """Groups rows that read a similar number of tokens.

    Otherwise one row without a cached prefix would make all others read as much.
    """
    first, *others = sorted(range(len(needs)), key=needs.__getitem__)
    groups = [[first]]
    for row in others:
        if len(groups[-1]) * (needs[row] - needs[groups[-1][0]]) > WORTH:
            groups.append([row])
        else:
            groups[-1].append(row)
    return groups


def longest(ids: Ids, texts: Iterable[CachedPrefix]) -> tuple[int, CachedPrefix | None]:
    """Returns the length of the longest common prefix with any text, and that text."""
    found: tuple[int, CachedPrefix | None] = (0, None)
    for known in texts:
        count = common(ids, known.ids)
        if count > found[0]:
            found = (count, known)
    return found


def common(a: Ids, b: Ids) -> int:
    """Returns the length of the common prefix; comparing slices is faster than comparing tokens."""
    least, most = 0, min(len(a), len(b))
    while least < most:
        middle = (least + most + 1) // 2
        if a[:middle] == b[:middle]:
            least = middle
        else:
            most = middle - 1
    return least


def laid(parts: Sequence[tuple[CachedPrefix | None, int]], new: int) -> Cache:
    """Returns a cache with one row per part, which holds the first `count` tokens of a known text.

    All rows end in the same slot, with room for the new tokens and as many again.
    """
    cache, length = Cache(), max(count for _, count in parts)
    model = next((known.cache for known, count in parts if known is not None and count), None)
    if model is None:
        return cache

    def rows(depth: int, which: int) -> Tensor:
        like = model._self[depth][which]  # [1, head, slot, dim]
        _, heads, _, dim = like.shape
        storage = like.new_zeros(len(parts), heads, max(2 * (length + new), 64), dim)
        for row, (known, count) in enumerate(parts):
            if known is not None:
                held = known.cache._self[depth][which]
                storage[row, :, length - count : length] = held[0, :, :count]
        return storage

    cache._self = {depth: (rows(depth, 0), rows(depth, 1)) for depth in model._self}
    cache.length = length
    counts = torch.tensor([[count] for _, count in parts], device=model.device)
    cache.next_position = counts
    if any(count < length for _, count in parts):
        cache.mask = torch.arange(length, device=model.device) >= length - counts
    return cache


def taken(cache: Cache, row: int, ids: Ids) -> CachedPrefix:
    """Copies a row's text, without its padding and without what follows it in the cache."""
    first = 0 if cache.mask is None else int(cache.mask[row].int().argmax())
    part = slice(first, first + len(ids))
    own = Cache()
    own.length = len(ids)
    own._self = {
        depth: (k[row : row + 1, :, part].clone(), v[row : row + 1, :, part].clone())
        for depth, (k, v) in cache._self.items()
    }
    return CachedPrefix(ids, own)


def bytes_a_token(cache: Cache) -> int:
    held = (x for pair in cache._self.values() for x in pair)
    return sum(x.shape[1] * x.shape[3] * x.element_size() for x in held)
