"""llama2.c's .bin files, written here from the reference's models as its export script does."""

import struct

import pytest
import sentencepiece
import torch
import transformers

import glassformer as gf
from glassformer.check import check
from glassformer.text import Tokenizer

SIZES = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 3, "vocab_size": 60,
         "num_attention_heads": 4, "num_key_value_heads": 2,
         "max_position_embeddings": 24}  # fmt: skip
TOKENS = torch.randint(60, (2, 9), generator=torch.Generator().manual_seed(0))


def reference(**changes):
    torch.manual_seed(3)
    config = transformers.LlamaConfig(**{**SIZES, "rms_norm_eps": 1e-5, **changes})
    return transformers.LlamaForCausalLM(config).eval()


def side_by_side(weight, heads):
    """Rows that are rotated together become neighbors, as Meta's checkpoints have them."""
    return weight.view(heads, 2, -1, weight.shape[1]).transpose(1, 2).reshape(weight.shape)


def written(model, version=0):
    config, layers = model.config, model.model.layers
    tied = config.tie_word_embeddings
    vocabulary = config.vocab_size if tied or version else -config.vocab_size
    numbers = struct.pack(
        "<7i", config.hidden_size, config.intermediate_size, config.num_hidden_layers,
        config.num_attention_heads, config.num_key_value_heads, vocabulary,
        config.max_position_embeddings,
    )  # fmt: skip
    norms = [layer.input_layernorm.weight for layer in layers]
    after = [layer.post_attention_layernorm.weight for layer in layers]
    attention = [
        *(side_by_side(a.self_attn.q_proj.weight, config.num_attention_heads) for a in layers),
        *(side_by_side(a.self_attn.k_proj.weight, config.num_key_value_heads) for a in layers),
        *(layer.self_attn.v_proj.weight for layer in layers),
        *(layer.self_attn.o_proj.weight for layer in layers),
    ]
    ffn = [getattr(layer.mlp, part).weight
           for part in ("gate_proj", "down_proj", "up_proj") for layer in layers]  # fmt: skip
    words, last = model.model.embed_tokens.weight, model.model.norm.weight
    if version:
        head = struct.pack("<Ii", 0x616B3432, version) + numbers + bytes([tied])
        head = head.ljust(256, b"\0")
        tensors = [*norms, *after, last, words, *attention, *ffn]
    else:
        dim = config.hidden_size // config.num_attention_heads
        speeds = 10000 ** -(torch.arange(0, dim, 2) / dim)
        angles = torch.outer(torch.arange(config.max_position_embeddings), speeds)
        head = numbers
        tensors = [words, *norms, *attention, *after, *ffn, last, angles.cos(), angles.sin()]
    if not tied:
        tensors.append(model.lm_head.weight)
    return head + b"".join(t.detach().float().contiguous().numpy().tobytes() for t in tensors)


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("key_heads", [4, 2])
def test_it_is_the_model_that_was_written(tmp_path, version, tied, key_heads):
    theirs = reference(tie_word_embeddings=tied, num_key_value_heads=key_heads)
    path = tmp_path / "model.bin"
    path.write_bytes(written(theirs, version))
    model = gf.load(path)
    with torch.no_grad():
        difference = (model(TOKENS).logits - theirs(TOKENS).logits).abs().max()
    assert float(difference) <= 1e-5
    assert model.architecture == "LlamaForCausalLM" and model.tokenizer is None
    model.save(tmp_path / "folder")
    saved = transformers.LlamaForCausalLM.from_pretrained(tmp_path / "folder").eval()
    for name, weight in theirs.state_dict().items():
        assert torch.equal(saved.state_dict()[name], weight), name


def test_weights_stay_in_the_file(tmp_path):
    path = tmp_path / "model.bin"
    path.write_bytes(written(reference()))
    before = path.read_bytes()
    table = gf.load(path).decoder.embed.token.weight
    with torch.no_grad():
        table.zero_()
    assert path.read_bytes() == before


def refused(path, said):
    with pytest.raises(gf.GlassformerError, match=said) as caught:
        gf.load(path)
    assert str(caught.value).endswith(".") and str(caught.value).count("\n") == 0


@pytest.mark.parametrize("version", [0, 1])
def test_files_that_are_not_whole(tmp_path, version):
    whole = written(reference(), version)
    path = tmp_path / "model.bin"
    for size in (len(whole) - 1, len(whole) // 2, 300):
        path.write_bytes(whole[:size])
        refused(path, f"is cut off: .* of {size:,}; get it again")
    for size in (27, 5):
        path.write_bytes(whole[:size])
        refused(path, "ends inside its header")
    path.write_bytes(whole + b"more")
    refused(path, f"has {len(whole) + 4:,} bytes, and by its header {len(whole):,}")
    path.write_bytes(b"")
    refused(path, "cannot be read")
    refused(tmp_path / "none.bin", "There is no file")


def test_files_that_are_something_else(tmp_path):
    torch.save({"a": torch.ones(2)}, tmp_path / "pytorch_model.bin")
    refused(tmp_path / "pytorch_model.bin", "load the folder")
    quantized = struct.pack("<Ii", 0x616B3432, 2).ljust(300, b"\1")
    (tmp_path / "model.bin").write_bytes(quantized)
    refused(tmp_path / "model.bin", "of version 2; the versions 0 and 1 are read")


def test_the_reference_is_asked_for_a_folder(tmp_path):
    path = tmp_path / "model.bin"
    path.write_bytes(written(reference()))
    with pytest.raises(gf.GlassformerError, match="save the model as a folder and check that"):
        check(path)


TEXT = """Once upon a time there was a little girl named Lily. She loved to play in the park.
One day she saw a big red ball, and a dog that was not hers: "Whose dog is it?" Déjà vu!"""
TEXTS = (TEXT, "Lily  saw a\tball", "", " a time", "naïve 水能载舟 🙂", "the the")


@pytest.fixture(scope="module")
def pieces(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pieces")
    corpus = folder / "corpus.txt"
    corpus.write_text("\n".join([TEXT] * 40), "utf-8")
    sentencepiece.SentencePieceTrainer.train(
        input=str(corpus), model_prefix=str(folder / "tokenizer"), model_type="bpe",
        vocab_size=330, byte_fallback=True, split_digits=True, character_coverage=1.0,
        normalization_rule_name="identity", remove_extra_whitespaces=False, minloglevel=2,
    )  # fmt: skip
    return sentencepiece.SentencePieceProcessor(model_file=str(folder / "tokenizer.model"))


def tokenizer_file(pieces, older):
    tokens = []
    for i in range(pieces.get_piece_size()):
        piece = pieces.id_to_piece(i)
        if older and pieces.is_byte(i):
            piece = chr(int(piece[3:5], 16))
        if pieces.is_control(i):
            piece = f"\n{piece}\n"
        text = piece.replace("\u2581", " ").encode()
        tokens.append(struct.pack("<fi", pieces.get_score(i), len(text)) + text)
    return struct.pack("<i", 20) + b"".join(tokens)


@pytest.mark.parametrize("older", [True, False])
def test_the_tokenizer_beside_it(tmp_path, pieces, older):
    size = pieces.get_piece_size()
    path = tmp_path / "model.bin"
    path.write_bytes(written(reference(vocab_size=size)))
    (tmp_path / "tokenizer.bin").write_bytes(tokenizer_file(pieces, older))
    model = gf.load(path)
    assert model.tokenizer.size == size
    for text in TEXTS:
        ids = model.tokenizer.encode(text).ids
        assert ids == [1, *pieces.encode(text)], text
        assert model.tokenizer.decode(ids) == pieces.decode(ids), text
    model.save(tmp_path / "folder")
    again = Tokenizer.load(tmp_path / "folder")
    assert [again.encode(t).ids for t in TEXTS] == [model.tokenizer.encode(t).ids for t in TEXTS]


def test_a_tokenizer_that_is_not_whole(tmp_path, pieces):
    path = tmp_path / "model.bin"
    path.write_bytes(written(reference()))
    whole = tokenizer_file(pieces, older=False)
    for part, said in ((whole[:-1], "ends in token"), (whole[:100], "ends in token|fewer than")):
        (tmp_path / "tokenizer.bin").write_bytes(part)
        with pytest.raises(gf.GlassformerError, match=said):
            _ = gf.load(path).tokenizer
