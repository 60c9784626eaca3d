"""What prompts begin with alike is read once.

A row reads only the end of its prompt. What stands before it is laid into the cache, from a text
that was read earlier. All rows of a pass read equally many tokens, so that no gap comes between:
it is as if a padded batch were read in two chunks, the first of which is there already.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import NamedTuple

import torch
from torch import Tensor, nn

from glassformer.core import Cache, Transformer
from glassformer.core.linear import TensorVersion
from glassformer.spec import AttentionPattern, BlockSpec

LEAST = 32  # tokens; fewer are read as soon as they are looked for,
LEAST_ON_GPU = 512  # and there so many
WORTH = 64  # tokens that a pass of its own must save
SIMPLE = (float, int, str)
Ids = tuple[int, ...]
Read = Callable[[Sequence[Ids], Cache], Tensor]  # rows go into a cache; the logits behind them


class CachedPrefix(NamedTuple):
    """A text that was read."""

    ids: Ids
    cache: Cache  # one row, without padding

    @property
    def bytes(self) -> int:
        return len(self.ids) * bytes_a_token(self.cache)


def can_share(net: Transformer) -> bool:
    """Whether a prompt's beginning is its keys and values alone, one of each a token, which depend
    neither on what follows nor on where padding stands."""
    stack = net.spec.decoder
    if stack is None or net.spec.encoder is not None or next(net.parameters()).is_inference():
        return False  # of weights made in inference mode nobody can tell whether they changed
    if net.decoder is None or net.decoder.around is not None:
        return False  # an adapter puts more into the cache than the text
    table = stack.embed.position
    return (
        stack.memory is None
        and stack.convolution is None
        and not stack.scores_segments
        and (table is None or table.pad is None)
        and all(
            isinstance(layer, BlockSpec)
            and isinstance(layer.pattern, AttentionPattern)
            and (layer.pattern.right, layer.pattern.block) == (0, None)
            and layer.attention.compress is None
            for layer in stack.blocks
        )
    )


class PrefixCache:
    """Texts that a net has read lately, up to a limit of bytes; those not used for longest go
    first. A net that computes something else by now has read nothing."""

    def __init__(self) -> None:
        self.limit = 0
        self.least = LEAST
        self.texts: dict[Ids, CachedPrefix] = {}  # the latest used is the last
        self.net: ModelVersion | None = None

    @property
    def bytes(self) -> int:
        return sum(known.bytes for known in self.texts.values())

    def forget(self) -> None:
        self.texts, self.net = {}, None

    def open(self, net: Transformer, limit: int) -> None:
        """To be used for this net, as it is now."""
        self.limit, self.least = limit, least_for(net)
        if not self.is_of(net):
            self.texts, self.net = {}, ModelVersion(net)
        self._drop()

    def is_of(self, net: Transformer) -> bool:
        return self.net is not None and self.net.holds(net)

    def helps(self, prompts: Sequence[Ids]) -> bool:
        """Whether some of these prompts begin alike, or as a text that is kept."""
        return bool(shared(sorted(prompts), least=self.least)) or any(
            longest(prompt[:-1], self.texts.values())[0] >= self.least for prompt in prompts
        )

    def keep(self, known: CachedPrefix) -> None:
        if len(known.ids) < self.least or known.bytes > self.limit:
            return
        for ids in [ids for ids in self.texts if known.ids[: len(ids)] == ids]:
            del self.texts[ids]  # its beginning
        self.texts[known.ids] = known
        self._drop()

    def touch(self, known: CachedPrefix) -> None:
        if self.texts.pop(known.ids, None) is not None:
            self.texts[known.ids] = known

    def _drop(self) -> None:
        while self.texts and self.bytes > self.limit:
            del self.texts[next(iter(self.texts))]


def least_for(net: Transformer) -> int:
    return LEAST if next(net.parameters()).device.type == "cpu" else LEAST_ON_GPU


class ModelVersion:
    """What a net computes with, to notice when that has changed since."""

    def __init__(self, net: nn.Module) -> None:
        tensors, self.settings = _walk(net)
        self.origin = TensorVersion(*tensors)

    def holds(self, net: nn.Module) -> bool:
        tensors, settings = _walk(net)
        return (
            self.settings == settings
            and len(tensors) == len(self.origin.seen)
            and self.origin.holds(*tensors)
        )

    def only_moved(self, net: nn.Module) -> bool:
        """Whether all numbers are what they were, wherever they lie now: the first generation lays
        weights where its kernels read them best."""
        tensors, settings = _walk(net)
        seen = self.origin.seen
        return (
            self.settings == settings
            and len(tensors) == len(seen)
            and all(
                tensor._version == version
                and (tensor.data_ptr() == was.data_ptr() or torch.equal(tensor, was))
                for tensor, (was, version) in zip(tensors, seen, strict=True)
            )
        )


def _walk(net: nn.Module) -> tuple[list[Tensor], list[tuple[object, ...]]]:
    """Its tensors; and of each module the settings (an adapter's scale may be one), and its hooks,
    whose numbers never come twice. Every call asks, and `net.modules` takes twice as long."""
    tensors: list[Tensor | None] = []
    settings: list[tuple[object, ...]] = []
    waiting: list[nn.Module | None] = [net]
    while waiting:
        module = waiting.pop()
        if module is None:
            continue
        tensors += module._parameters.values()
        tensors += module._buffers.values()
        simple = [value for value in vars(module).values() if isinstance(value, SIMPLE)]
        hooks = *module._forward_hooks, *module._forward_pre_hooks
        settings.append((id(module), *simple, *hooks))
        waiting += module._modules.values()
    return [tensor for tensor in tensors if tensor is not None], settings


def read_once(shelf: PrefixCache, prompts: Sequence[Ids], read: Read) -> tuple[Cache, Tensor]:
    """The cache of all prompts, in their order, and the logits of what follows them."""
    heads: list[CachedPrefix] = []
    for head in shared(sorted(prompts), least=shelf.least):
        there, known = longest(head, (*heads, *shelf.texts.values()))
        if len(head) - there >= shelf.least:
            cache = laid([(known, there)], len(head) - there)
            read([head[there:]], cache)
            heads.append(taken(cache, 0, head))
            shelf.keep(heads[-1])
    places = [longest(prompt[:-1], (*heads, *shelf.texts.values())) for prompt in prompts]
    places = [(n, known) if n >= shelf.least else (0, None) for n, known in places]
    for _, known in places:
        if known is not None:
            shelf.touch(known)
    needs = [len(prompt) - n for prompt, (n, _) in zip(prompts, places, strict=True)]
    groups = alike(needs) if any(n for n, _ in places) else [list(range(len(prompts)))]
    whole: Cache | None = None
    logits: list[Tensor] = []
    for group in groups:
        new = max(needs[row] for row in group)
        parts = [(places[row][1], max(0, len(prompts[row]) - new)) for row in group]
        cache = laid(parts, new)
        logits.append(read([prompts[row][-new:] for row in group], cache))
        room = shelf.limit // bytes_a_token(cache)
        for at, row in enumerate(group):
            news = len(prompts) == 1 or 2 * places[row][0] < len(prompts[row])
            if news and shelf.least <= len(prompts[row]) <= room:
                shelf.keep(taken(cache, at, prompts[row]))
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
    """What several of the prompts, which are sorted, begin with alike, the shorter before the
    longer; `have` tokens are known already, and all agree up to `at`."""
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
    """Rows in groups that read about equally much, so that one to which all is new does not make
    the others read as much."""
    first, *others = sorted(range(len(needs)), key=needs.__getitem__)
    groups = [[first]]
    for row in others:
        if len(groups[-1]) * (needs[row] - needs[groups[-1][0]]) > WORTH:
            groups.append([row])
        else:
            groups[-1].append(row)
    return groups


def longest(ids: Ids, texts: Iterable[CachedPrefix]) -> tuple[int, CachedPrefix | None]:
    """The text that begins like this one for longest, and how long that is."""
    found: tuple[int, CachedPrefix | None] = (0, None)
    for known in texts:
        count = common(ids, known.ids)
        if count > found[0]:
            found = (count, known)
    return found


def common(a: Ids, b: Ids) -> int:
    """How many tokens two texts begin with alike; slices are compared faster than tokens."""
    least, most = 0, min(len(a), len(b))
    while least < most:
        middle = (least + most + 1) // 2
        if a[:middle] == b[:middle]:
            least = middle
        else:
            most = middle - 1
    return least


def laid(parts: Sequence[tuple[CachedPrefix | None, int]], new: int) -> Cache:
    """A cache of a row for each part, which is so many first tokens of a known text. All end in
    the same slot, and there is room for what is new and as much again."""
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
    cache.positions = counts
    if any(count < length for _, count in parts):
        cache.mask = torch.arange(length, device=model.device) >= length - counts
    return cache


def taken(cache: Cache, row: int, ids: Ids) -> CachedPrefix:
    """A copy of a row's text, behind its padding; what follows it in the cache is left there."""
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
